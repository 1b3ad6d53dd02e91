from __future__ import annotations

import math
import random

import msgspec
import pytest

from hemostat.tune.trial import History, Point, Trial

RUNGS = (3, 9)


def trial(number, *values, **change):
    points = tuple(
        Point(at=at, value=value, time_s=1.0 * at) for at, value in zip(RUNGS, values, strict=False)
    )
    return Trial(**{"number": number, "config": {}, "origin": "random", "points": points, **change})


def test_runs_are_compared_at_one_position_and_failures_are_the_worst():
    trials = (trial(0, 0.5, 0.1), trial(1, 0.4), trial(2, math.nan), trial(3, outcome="nan"), trial(4))
    history = History(trials=trials, sign=1, rungs=RUNGS)
    assert [(score, one.number) for score, one in history.at_rung(3)] == [
        (0.4, 1), (0.5, 0), (math.inf, 2), (math.inf, 3),
    ]  # fmt: skip
    assert [one.number for _, one in history.at_rung(9)] == [0, 3]
    assert [one.number for _, one in msgspec.structs.replace(history, sign=-1).at_rung(3)][:2] == [0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_a_history_that_grew_is_the_history_that_was_made_at_once(seed):
    rng = random.Random(seed)
    history = History(trials=(), sign=rng.choice((1, -1)), rungs=RUNGS)
    for _ in range(60):
        number = rng.randrange(len(history.trials) + 1)
        if number == len(history.trials):
            history = history.put(trial(number))
            continue
        old = history.trials[number]
        at = old.position + rng.choice((1, 2, 3))
        value = rng.choice((0.1, 0.2, math.nan, math.inf))
        outcome = rng.choice((None, None, "paused", "finished", "nan", "crash", "out_of_memory"))
        points = old.points if rng.random() < 0.3 else (*old.points, Point(at=at, value=value, time_s=1.0))
        history = history.put(msgspec.structs.replace(old, points=points, outcome=outcome))
        fresh = History(trials=history.trials, sign=history.sign, rungs=RUNGS)
        for rung in (*RUNGS, 4):
            assert history.at_rung(rung) == fresh.at_rung(rung)


def test_an_older_history_stays_as_it_was():
    before = History(trials=(trial(0, 0.5),), sign=1, rungs=RUNGS)
    assert before.at_rung(3)[0][0] == 0.5
    after = before.put(trial(0, 0.5, outcome="nan")).put(trial(1, 0.1))
    assert [one.number for _, one in after.at_rung(3)] == [1, 0]
    assert [one.number for _, one in before.at_rung(3)] == [0]


def test_a_run_that_ended_by_itself_keeps_its_last_value_and_others_do_not():
    trials = (
        trial(0, 0.5, outcome="finished"),
        trial(1, 0.4, outcome="paused"),
        trial(2, 0.3, outcome="stopped"),
    )
    history = History(trials=trials, sign=1, rungs=RUNGS)
    assert [(score, one.number) for score, one in history.at_rung(9)] == [(0.5, 0)]
    assert history.score(trial(0, 0.5, 0.6, outcome="finished"), 3) == 0.5


def test_a_part_of_a_study_is_a_history_too():
    part = History(trials=(trial(4, 0.5), trial(7, 0.1)), sign=1, rungs=RUNGS)
    assert [(score, one.number) for score, one in part.at_rung(3)] == [(0.1, 7), (0.5, 4)]
