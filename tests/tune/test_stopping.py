"""The own stop: not before there was enough, not right after a better trial, never without a result."""

from __future__ import annotations

from hemostat.tune.space import Real, Space
from hemostat.tune.stopping import IDLE_RUNS, LEAST_RUNS, RUNS_PER_PARAMETER, done
from hemostat.tune.trial import History, Point, Trial

SPACE = Space((Real("lr", 1e-4, 1e-1), Real("wd", 1e-6, 1e-2)))
ENOUGH = LEAST_RUNS + 2 * RUNS_PER_PARAMETER


def history(values: list[float], at: int = 9) -> History:
    trials = tuple(
        Trial(
            number=number,
            config={},
            origin="test",
            points=(Point(at=at, value=value, time_s=10.0 * at),),
            outcome="finished" if at == 9 else "paused",
        )
        for number, value in enumerate(values)
    )
    return History(trials=trials, sign=1, rungs=(3, 9))


def test_it_ends_when_there_was_enough_and_nothing_better_came():
    reason = done(SPACE, history([0.5] + [0.9] * (ENOUGH - 1)))
    assert reason is not None
    assert f"{ENOUGH} whole runs" in reason
    assert done(SPACE, history([0.5] + [0.9] * (ENOUGH - 2))) is None


def test_a_better_trial_keeps_it_going():
    late = [0.9] * ENOUGH + [0.5]
    assert done(SPACE, history(late + [0.9] * (IDLE_RUNS - 1))) is None
    assert done(SPACE, history(late + [0.9] * IDLE_RUNS)) is not None


def test_what_was_stopped_early_counts_with_its_share():
    paused = history([0.9] * 2 * ENOUGH, at=3).trials
    whole = Trial(
        number=len(paused),
        config={},
        origin="test",
        points=(Point(at=9, value=0.8, time_s=90.0),),
        outcome="finished",
    )
    assert done(SPACE, History(trials=(*paused, whole), sign=1, rungs=(3, 9))) is None


def test_without_a_whole_run_it_goes_on():
    assert done(SPACE, history([0.5] * 100, at=3)) is None
    assert done(SPACE, history([float("nan")] * 100)) is None
