"""Waits: totals, share and the verdict's three steps."""

import timeit

import numpy as np
import pytest

from hemostat.data.waits import Waits


@pytest.mark.parametrize(
    ("wait_s", "line"),
    [
        (0.0, "data fine: 0.0 % of the run waited for it"),
        (2.9, "data fine: 2.9 % of the run waited for it"),
        (3.0, "data to watch: 3 % of the run waited for it"),
        (10.0, "data to watch: 10 % of the run waited for it"),
        (14.0, "input-bound: 14 % of the run waited for data"),
    ],
)
def test_verdict(wait_s, line):
    waits = Waits()
    waits.add(wait_s=wait_s, fetch_s=0.0)
    assert waits.verdict(wall_s=100.0) == line


def test_a_run_under_a_second_is_not_judged():
    waits = Waits()
    waits.add(wait_s=0.05, fetch_s=0.05)
    assert waits.verdict(wall_s=0.054) == "data not judged: 54.0 ms are too short for it"
    assert waits.verdict(wall_s=0.0).startswith("data not judged")
    assert waits.verdict(wall_s=1.0).startswith("data to watch")


def test_totals():
    waits = Waits()
    for wait_s in (0.5, 2.0, 1.0):
        waits.add(wait_s=wait_s, fetch_s=0.25)
    assert (waits.wait_s, waits.max_wait_s, waits.last_wait_s) == (3.5, 2.0, 1.0)
    assert (waits.fetch_s, waits.num_fetches) == (0.75, 3)
    assert waits.share(7.0) == 0.5


def test_a_run_without_length_has_no_share():
    waits = Waits()
    assert waits.share(0.0) == 0.0
    waits.add(wait_s=3.0, fetch_s=3.0)
    assert waits.share(2.0) == 1.0


@pytest.mark.parametrize("scale_s", [2e-6, 1e-3, 4.0])
def test_quantiles_are_right_within_ten_percent(scale_s):
    waits = Waits()
    times_s = scale_s * np.random.default_rng(0).lognormal(0.0, 1.0, 20_000)
    for wait_s in times_s:
        waits.add(float(wait_s), 0.0)
    for share in (0.5, 0.99):
        assert waits.quantile_s(share) == pytest.approx(np.quantile(times_s, share), rel=0.1)
    assert waits.quantile_s(1.0) <= waits.max_wait_s


def test_the_record_is_bounded_and_takes_any_wait():
    waits = Waits()
    assert waits.quantile_s(0.99) == 0.0
    size = len(waits.counts)
    for wait_s in (0.0, 1e-9, 1e9):
        waits.add(wait_s, 0.0)
    assert (len(waits.counts), sum(waits.counts)) == (size, 3)
    assert waits.quantile_s(0.5) < 1e-6 < 1000 < waits.quantile_s(0.99)


def test_counting_costs_less_than_a_microsecond():
    waits = Waits()
    rounds_s = timeit.repeat(lambda: waits.add(1.2e-4, 1e-3), number=10_000, repeat=9)
    assert min(rounds_s) / 10_000 < 1e-6
