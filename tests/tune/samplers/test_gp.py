"""The model's sampler finds a valley, learns from early rungs, and keeps away from where runs fail."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from hemostat.tune.samplers.gp import Gp, best_trials, expected_gains, expected_improvement
from hemostat.tune.space import Real, Space
from hemostat.tune.trial import History, Point, Trial

SPACE = Space((Real("lr", 1e-5, 1e-1), Real("wd", 1e-6, 1e-2)))
RUNGS = (3, 9)


def miss(config) -> float:
    return math.log10(config["lr"] / 1e-3) ** 2 + 0.3 * math.log10(config["wd"] / 1e-4) ** 2


def put(history: History, config, *values: float, outcome="paused") -> History:
    points = tuple(
        Point(at=at, value=value, time_s=1.0 * at) for at, value in zip(RUNGS, values, strict=False)
    )
    number = len(history.trials)
    return history.put(Trial(number=number, config=config, origin="test", points=points, outcome=outcome))


def empty(sign: int = 1) -> History:
    return History(trials=(), sign=sign, rungs=RUNGS)


@pytest.mark.parametrize("sign", [1, -1])
def test_it_finds_the_bottom_in_25_trials(sign):
    history, sampler = empty(sign), Gp()
    for number in range(25):
        config = sampler.propose(SPACE, history, random.Random(number))
        history = put(history, config, sign * (miss(config) + 1), sign * miss(config), outcome="finished")
    best = min(miss(trial.config) for trial in history.trials)
    drawn = [miss(SPACE.sample(random.Random(number))) for number in range(25)]
    assert best < 0.02 < min(drawn)


def test_early_rungs_teach_it_too():
    history = empty()
    for number in range(12):
        config = SPACE.sample(random.Random(number))
        history = put(history, config, miss(config))
    near, far = expected_gains(SPACE, history, [{"lr": 1e-3, "wd": 1e-4}, {"lr": 9e-2, "wd": 1e-6}])
    assert near > far


def test_where_runs_fail_little_is_expected():
    history = empty()
    for number in range(20):
        config = SPACE.sample(random.Random(number))
        if config["lr"] > 5e-3:
            history = put(history, config, outcome="nan")
        else:
            history = put(history, config, 1 + miss(config), miss(config))
    low, high = expected_gains(SPACE, history, [{"lr": 1e-3, "wd": 1e-4}, {"lr": 5e-2, "wd": 1e-4}])
    assert low > high


def test_the_best_are_those_that_came_furthest():
    history = put(
        put(put(empty(), {"lr": 1e-3, "wd": 1e-4}, 0.1), {"lr": 2e-3, "wd": 1e-4}, 0.5, 0.4),
        {},
        outcome="nan",
    )
    assert [trial.number for trial in best_trials(history, 5)] == [1, 0]


def test_expected_improvement_of_a_sure_gain_is_the_gain():
    gains = expected_improvement(np.array([0.5, 0.0, -0.5]), np.array([1e-6, 1.0, 1e-6]))
    assert gains == pytest.approx([0.5, 1 / math.sqrt(2 * math.pi), 0.0], abs=1e-6)
