"""How sure a winner is."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.tune.luck import seed_noise, standings


def test_noise_is_recovered_from_many_pairs() -> None:
    rng = random.Random(1)
    scores = {number: [rng.gauss(number, 0.3), rng.gauss(number, 0.3)] for number in range(2000)}
    assert seed_noise(scores) == pytest.approx(0.3, rel=0.05)


def test_one_run_each_tells_nothing_about_noise() -> None:
    assert seed_noise({0: [1.0], 1: [2.0]}) is None


def test_two_means_one_error_apart_win_as_the_normal_distribution_says() -> None:
    first, second = standings({0: [0.0], 1: [1.0]}, noise=1.0)
    expected = 0.5 * (1 + math.erf(1 / math.sqrt(2) / math.sqrt(2)))  # P(N(1, 2) > 0)
    assert first.best_chance == pytest.approx(expected, abs=0.01)
    assert first.best_chance + second.best_chance == pytest.approx(1.0)


def test_equal_means_share_the_chance() -> None:
    chances = [each.best_chance for each in standings({n: [1.0] for n in range(4)}, noise=0.1)]
    assert chances == pytest.approx([0.25] * 4, abs=0.02)


def test_more_seeds_make_the_winner_surer() -> None:
    once = standings({0: [0.0], 1: [0.1]}, noise=0.2)[0]
    often = standings({0: [0.0] * 9, 1: [0.1] * 9}, noise=0.2)[0]
    assert often.best_chance > once.best_chance + 0.2
    assert often.standard_error == pytest.approx(once.standard_error / 3)


def test_without_noise_the_best_mean_has_won() -> None:
    assert [each.best_chance for each in standings({0: [2.0], 1: [1.0]}, noise=0.0)] == [1.0, 0.0]


def test_the_draws_follow_from_the_seed() -> None:
    scores = {0: [0.0], 1: [0.05], 2: [0.1]}
    assert standings(scores, 0.1, seed=5) == standings(scores, 0.1, seed=5)
