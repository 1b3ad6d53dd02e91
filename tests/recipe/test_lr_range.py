"""The range test on curves whose answer is known, with and without noise."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from hemostat.recipe.lr_range import exploded, read_range, smooth, sweep


def curve(rates: list[float], *, fall_at: float, rise_at: float, noise: float = 0.0) -> list[float]:
    """A loss of 2 that falls to 1 around one rate and rises from another one on."""
    draw = random.Random(0)
    return [
        2 - 1 / (1 + (fall_at / rate) ** 2) + (rate / rise_at) ** 4 + draw.gauss(0, noise) for rate in rates
    ]


def test_the_sweep_rises_by_one_factor():
    rates = sweep(0.05, 100)
    assert (rates[0], rates[-1]) == (pytest.approx(5e-5), pytest.approx(50))
    assert {round(b / a, 9) for a, b in itertools.pairwise(rates)} == {round(1e6 ** (1 / 99), 9)}


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_both_rates_are_found(noise):
    rates = sweep(0.1, 100)
    verdict = read_range(rates, curve(rates, fall_at=0.01, rise_at=10.0, noise=noise))
    assert verdict.lr == verdict.steepest
    assert verdict.steepest == pytest.approx(0.01, rel=1.5 if noise else 0.2)
    assert 0.2 < verdict.largest < 4


def test_the_safer_of_the_two_is_suggested():
    rates = sweep(0.1, 100)
    verdict = read_range(rates, curve(rates, fall_at=0.3, rise_at=3.0))
    assert verdict.lr == pytest.approx(verdict.largest / 10) and verdict.lr < verdict.steepest


def test_a_loss_that_never_rises_is_said():
    rates = sweep(0.1, 100)
    verdict = read_range(rates, curve(rates, fall_at=1.0, rise_at=1e9))
    assert verdict.lr == verdict.steepest and "had not risen by" in verdict.why


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_verdict(seed):
    draw = random.Random(seed)
    verdict = read_range(sweep(0.1, 100), [2 + draw.gauss(0, 0.3) for _ in range(100)])
    assert verdict.lr is None and "too noisy" in verdict.why


def test_a_rising_loss_and_an_early_end_are_no_verdict():
    rates = sweep(0.1, 100)
    assert read_range(rates, [1 + at / 10 for at in range(100)]).lr is None
    assert "exploded after 3 steps" in read_range(rates, [1.0, 2.0, 9.0, math.nan]).why


def test_an_explosion_is_seen_and_noise_is_not():
    draw = random.Random(1)
    losses = [2 + draw.gauss(0, 0.3) for _ in range(60)]
    assert not any(exploded(losses[:num]) for num in range(61))
    assert exploded([*losses, 20.0, 40.0, 80.0]) and exploded([1.0, math.inf])
    falling = [-5.0 - at / 10 for at in range(40)]
    assert not exploded(falling) and exploded([*falling, 40.0, 90.0, 200.0])
    assert len(smooth(losses)) == 60
