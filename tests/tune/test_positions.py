"""Trials with other batches are compared at the same places, each at its nearest evaluation."""

from __future__ import annotations

import pytest

from hemostat.tune.positions import on_scale


def evaluated(every: int, length: int, *, cut: int = 0) -> list[tuple[int, float]]:
    """(position, value = position) of a run; windows lose `cut` samples at each evaluation."""
    places = [n * (every - cut) for n in range(1, length // (every - cut) + 1)]
    return [(at, float(at)) for at in places if at < length] + [(length, float(length))]


@pytest.mark.parametrize("every", [500, 640, 992, 1000, 1024, 1400])
@pytest.mark.parametrize("cut", [0, 7])
def test_every_place_gets_an_evaluation_within_its_reach_and_the_end_its_own(every, cut):
    found = on_scale(evaluated(every, 20_000, cut=cut), 20_000, 1000)
    assert [at for at, _ in found] == list(range(1000, 20_001, 1000))
    assert all(abs(at - value) <= 0.55 * every + 1 for at, value in found[:-2])
    assert found[-1] == (20_000, 20_000.0)


def test_what_was_given_once_stays_as_the_run_goes_on():
    whole = evaluated(1400, 20_000)
    for count in range(len(whole)):
        part = on_scale(whole[:count], 20_000, 1000)
        assert part == on_scale(whole, 20_000, 1000)[: len(part)]


def test_a_length_that_is_no_multiple_and_points_behind_the_end():
    assert on_scale([(3, 0.3), (6, 0.6), (8, 0.8)], 8, 3) == [(3, 0.3), (6, 0.6), (8, 0.8)]
    assert on_scale([(3, 0.3), (6, 0.6), (9, 0.9), (12, 1.2)], 8, 3) == [(3, 0.3), (6, 0.6), (8, 0.9)]


def test_the_untrained_model_is_no_evaluation():
    assert on_scale([(0, 9.0)], 10, 5) == []
    assert on_scale([(0, 9.0), (5, 1.0)], 10, 5) == [(5, 1.0)]
