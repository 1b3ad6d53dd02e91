from __future__ import annotations

import math

import pytest

from hemostat.tune.pruners.asha import AshaPruner
from hemostat.tune.trial import History, Point, Trial

RUNGS = (1, 4, 16)


def trial(number, *values, outcome="paused"):
    points = tuple(Point(at=at, value=value, time_s=1.0) for at, value in zip(RUNGS, values, strict=False))
    return Trial(number=number, config={}, origin="random", points=points, outcome=outcome)


def history(*trials):
    return History(trials=trials, sign=1, rungs=RUNGS)


def test_one_in_eta_goes_on_as_soon_as_there_are_eta():
    three = [trial(n, 0.5 - n / 10) for n in range(3)]
    pruner = AshaPruner(eta=4)
    assert pruner.promote(history(*three)) is None
    assert pruner.promote(history(*three, trial(3, 0.9))).number == 2
    gone_on = [*three[:2], trial(2, 0.3, outcome=None), trial(3, 0.9)]
    assert pruner.promote(history(*gone_on)) is None


def test_higher_rungs_come_first():
    trials = [trial(n, 0.1 + n / 100, 0.2 + n / 100) for n in range(4)] + [
        trial(n, 0.01) for n in range(4, 8)
    ]
    assert AshaPruner(eta=4).promote(history(*trials)).number == 0


def test_failures_fill_a_rung_and_are_never_promoted():
    trials = [trial(n, outcome="nan") for n in range(3)] + [trial(3, 0.9)]
    assert AshaPruner(eta=4).promote(history(*trials)).number == 3
    assert AshaPruner(eta=4).promote(history(*[trial(n, math.nan) for n in range(8)])) is None


@pytest.mark.parametrize(
    ("others", "mine", "wanted"),
    [
        ((), 9.0, True),  # the first one always
        ((0.1,), 0.2, False),
        ((0.4, 0.3, 0.2, 0.1), 0.175, True),  # numpy.percentile([0.1, 0.2, 0.3, 0.4], 25) = 0.175
        ((0.4, 0.3, 0.2, 0.1), 0.176, False),
        ((math.nan, math.nan), 5.0, True),
        ((math.nan, math.nan), math.nan, False),
        ((0.1, math.nan), 5.0, True),
    ],
)
def test_without_a_pause_the_quantile_of_those_before_decides(others, mine, wanted):
    trials = [trial(n, value, outcome=None) for n, value in enumerate((*others, mine))]
    assert AshaPruner(eta=4).keep(history(*trials), trials[-1]) is wanted
