from __future__ import annotations

import pytest

from hemostat.errors import FieldError
from hemostat.tune.pruners.rungs import among_best, geometric_rungs, halved_rungs
from hemostat.tune.trial import History, Point, Trial


def test_rungs_of_the_papers():
    assert geometric_rungs(256, 1, 1, 4) == (1, 4, 16, 64, 256)  # ASHA's R = 256, r = 1
    assert halved_rungs(81, 1, 1, 3) == (1, 3, 9, 27, 81)  # Hyperband's table 1


@pytest.mark.parametrize(("length", "step", "first"), [(100, 7, 5), (100, 30, 1), (10, 10, 1), (1, 1, 1)])
def test_rungs_are_where_something_is_evaluated(length, step, first):
    for rungs in (geometric_rungs(length, step, first, 3), halved_rungs(length, step, first, 3)):
        assert rungs[-1] == length and all(at % step == 0 and at >= first for at in rungs[:-1])
        assert list(rungs) == sorted(set(rungs))


@pytest.mark.parametrize("rungs", [geometric_rungs, halved_rungs])
def test_a_factor_of_one_is_refused(rungs):
    with pytest.raises(FieldError, match="eta=1"):
        rungs(10, 1, 1, 1)


def test_the_best_third_of_those_that_were_here():
    trials = tuple(
        Trial(number=n, config={}, origin="random", points=(Point(at=1, value=value, time_s=1.0),))
        for n, value in enumerate((0.5, 0.1, 0.3, 0.2, float("nan")))
    )
    history = History(trials=trials, sign=1, rungs=(1, 3))
    assert [among_best(history, trial, 3) for trial in trials] == [False, True, False, True, False]
    assert not among_best(History(trials=trials[4:], sign=1, rungs=(1, 3)), trials[4], 3)
