from __future__ import annotations

import pytest

from hemostat.errors import FieldError
from hemostat.tune.budget import Budget, check_least, estimate

PRICED = {"usd_per_device_hour": 2.0, "num_devices": 4}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_s": 0.0}, "max_s=0.0"),
        ({"max_usd": float("nan"), **PRICED}, "max_usd=nan"),
        ({"max_usd": 5.0}, "usd_per_device_hour"),
        ({"num_devices": 0}, "num_devices=0"),
        ({"save_s": -1.0}, "save_s=-1.0"),
    ],
)
def test_bad_caps_are_refused(change, said):
    with pytest.raises(FieldError, match=said):
        Budget(**change)


def test_the_cap_that_is_reached_first_counts():
    assert Budget(max_usd=40.0, max_device_s=36_000.0, **PRICED).max_busy_s == 9_000.0
    assert Budget(max_usd=8.0, max_device_s=3.6e6, **PRICED).max_busy_s == 3_600.0
    assert Budget(max_s=5.0).max_busy_s == float("inf")


def test_an_estimate_before_the_start():
    told = estimate(Budget(max_usd=16.0, s_per_unit=2.0, save_s=40.0, **PRICED), length=100, num_workers=5)
    assert (told.run_s, told.num_runs, told.max_usd) == (240.0, 30, 16.0)
    assert told.run_usd == pytest.approx(240 / 3600 * 8)
    free = estimate(Budget(s_per_unit=2.0), length=100, num_workers=5)
    assert (free.num_runs, free.max_usd) == (None, None)
    clocked = estimate(Budget(max_s=450.0, s_per_unit=2.0, **PRICED), length=100, num_workers=5)
    assert clocked.num_runs == 10  # two after another, five side by side
    assert clocked.max_usd == pytest.approx(450 * 5 * 8 / 3600)


def test_an_estimate_needs_a_forecast():
    with pytest.raises(FieldError, match="s_per_unit"):
        estimate(Budget(max_s=5.0), length=10, num_workers=1)


@pytest.mark.parametrize(
    ("budget", "least"),
    [
        (Budget(max_s=99.0), "1m40s"),
        (Budget(max_device_s=399.0, num_devices=4), "0.111 device-hours"),
        (Budget(max_usd=0.1, **PRICED), r"\$0.22"),
    ],
)
def test_less_than_one_run_says_the_least(budget, least):
    with pytest.raises(FieldError, match=least):
        check_least(budget, run_s=100.0)
    check_least(budget, run_s=10.0)


def test_what_is_left_of_every_cap_is_said():
    budget = Budget(max_s=100.0, max_device_s=8 * 3600.0, max_usd=16.0, **PRICED)
    assert (
        budget.unspent(clock_s=60.0, busy_s=1800.0)
        == "40.0 s of 1m40s, 6 of 8 device-hours, $12.00 of $16.00"
    )
    assert Budget().unspent(clock_s=60.0, busy_s=1800.0) == ""
