from __future__ import annotations

import math

import pytest

from hemostat.tune.doubts import Sameness, doubts_direction
from hemostat.tune.trial import History, Point, Trial


def curve(number, *values):
    points = tuple(Point(at=at, value=value, time_s=1.0 * at) for at, value in enumerate(values))
    return Trial(number=number, config={"lr": number}, origin="random", points=points)


def same(*trials):
    sameness = Sameness()
    for trial in trials:
        for point in trial.points:
            sameness.measured(trial, point)
    return sameness.reason


def test_three_identical_curves_say_that_the_parameters_are_ignored():
    reason = same(*(curve(number, 9.0, 0.5, 0.4, 0.3) for number in range(3)))
    assert reason is not None and "3 trials" in reason and "ignores" in reason


@pytest.mark.parametrize(
    "trials",
    [
        [curve(number, 9.0, 0.5, 0.4, 0.3) for number in range(2)],  # two may be a coincidence
        [curve(number, 9.0) for number in range(20)],  # the untrained model
        [curve(number, 9.0, 0.1, 0.1, 0.1) for number in range(7)],  # stuck at the value of guessing
        [*(curve(number, 9.0, 0.5, 0.4) for number in range(9)), curve(9, 9.0, 0.5, 0.41)],
        [curve(number, 9.0, math.nan, math.nan) for number in range(20)],
    ],
)
def test_what_may_be_a_coincidence_goes_on(trials):
    assert same(*trials) is None


def test_one_value_a_trial_needs_more_trials():
    assert same(*(curve(number, 9.0, 0.5) for number in range(7))) is None
    assert same(*(curve(number, 9.0, 0.5) for number in range(8))) is not None


def history(sign, *curves):
    return History(trials=tuple(curve(n, *values) for n, values in enumerate(curves)), sign=sign, rungs=(3,))


def test_a_loss_that_is_maximised_is_asked_about():
    finding = doubts_direction(history(-1, (3.0, 2.0, 1.0), (3.0, 2.5, 2.4), (3.1, 2.0, 1.9)))
    assert finding is not None and "gets lower" in finding.message and "'min'" in finding.fix


def test_negative_values_under_max_are_asked_about():
    finding = doubts_direction(history(-1, (-3.0,), (-2.0,), (-1.0,)))
    assert finding is not None and "negative" in finding.message


@pytest.mark.parametrize(
    "known",
    [
        history(1, (3.0, 2.0, 1.0), (3.0, 2.5, 2.4), (3.1, 2.0, 1.9)),
        history(-1, (3.0, 2.0, 1.0), (3.0, 2.5, 2.4)),  # too few
        history(-1, (3.0, 2.0, 1.0), (3.0, 2.5, 2.4), (0.1, 0.2, 0.3)),  # one gets better
        history(1, (-3.0,), (-2.0,), (-1.0,)),
        history(-1, (math.nan,), (), (math.inf,)),
    ],
)
def test_nothing_is_asked_without_a_reason(known):
    assert doubts_direction(known) is None
