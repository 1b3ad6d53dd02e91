from __future__ import annotations

import math

import pytest

from hemostat.tune.failures import Streak, can_retry
from hemostat.tune.trial import Point, Trial


def ended(number, outcome, why="CUDA", **change):
    return Trial(number=number, config={}, origin="random", outcome=outcome, why=why, **change)


@pytest.mark.parametrize(
    ("outcome", "num_failures", "wanted"),
    [
        ("crash", 1, True),
        ("preempted", 3, True),
        ("timeout", 4, False),
        ("nan", 1, False),
        ("paused", 0, False),
    ],
)
def test_three_retries_of_what_the_machine_failed(outcome, num_failures, wanted):
    assert can_retry(ended(0, outcome, num_failures=num_failures)) is wanted


def test_four_identical_failures_end_a_study_with_the_reason():
    streak = Streak()
    for number in range(3):
        streak.ended(ended(number, "out_of_memory", why=f"asked for {80.5 + number} GiB"))
    assert streak.reason(9) is None
    streak.ended(ended(3, "out_of_memory", why="asked for 91 GiB"))
    assert streak.reason(9) is not None and "4 attempts" in streak.reason(9) and "91 GiB" in streak.reason(9)


def test_one_trial_that_crashes_four_times_ends_a_study_only_where_nothing_else_works():
    for value, wanted in ((None, True), (math.nan, True), (0.5, False)):
        streak = Streak()
        if value is not None:
            streak.measured(Point(at=1, value=value, time_s=1.0))
        for _ in range(4):
            streak.ended(ended(0, "crash"))
        assert (streak.reason(num_trials=1) is not None) is wanted
        assert streak.reason(num_trials=5) is None  # the others are still on their way


def test_four_trials_that_crash_alike_end_a_study_that_has_values():
    streak = Streak()
    streak.measured(Point(at=1, value=0.5, time_s=1.0))
    for number in range(4):
        streak.ended(ended(number, "crash"))
    assert streak.reason(9) is not None and "crashed" in streak.reason(9)


def test_parameters_that_fail_teach_and_do_not_end_a_study_that_has_values():
    streak = Streak()
    streak.measured(Point(at=1, value=0.5, time_s=1.0))
    for number in range(9):
        streak.ended(ended(number, "nan"))
    assert streak.reason(9) is None


@pytest.mark.parametrize("between", [ended(9, "finished"), ended(9, "crash", why="other")])
def test_another_end_begins_anew(between):
    streak = Streak()
    for number in range(3):
        streak.ended(ended(number, "crash"))
    streak.ended(between)
    streak.ended(ended(4, "crash"))
    assert streak.reason(9) is None


def test_preemptions_neither_count_nor_interrupt():
    streak = Streak()
    for number in range(8):
        streak.ended(ended(number, "preempted"))
    assert streak.reason(9) is None
    for number in range(4):
        streak.ended(ended(number, "timeout"))
        streak.ended(ended(number, "preempted"))
    assert streak.reason(9) is not None
