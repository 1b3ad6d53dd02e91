"""The own sampler finds what random search does not, with failures, conditions and rungs."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.tune.samplers.kde import Kde
from hemostat.tune.samplers.random import Random
from hemostat.tune.space import Choice, Real, Space
from hemostat.tune.trial import History, Point, Trial

SPACE = Space(
    (
        Real("lr", 1e-5, 1e-1),
        Choice("kind", ("a", "b", "c")),
        Choice("depth", (1, 2, 4, 8, 16)),
        Real("momentum", 0.0, 0.9, when="kind == 'b'"),
    )
)


def loss(config) -> float:
    if config["lr"] > 0.03:
        return math.nan
    wrong = {"a": 1.0, "b": abs(config.get("momentum", 0) - 0.8), "c": 2.0}[config["kind"]]
    return math.log10(config["lr"] / 3e-3) ** 2 + wrong + abs(math.log2(config["depth"] / 4)) / 2


def best_of(sampler, seed: int, num: int = 60) -> float:
    history = History(trials=(), sign=1, rungs=(1,))
    best = math.inf
    for number in range(num):
        config = sampler.propose(SPACE, history, random.Random(f"{seed}:{number}"))
        value = loss(config)
        best = min(best, math.inf if math.isnan(value) else value)
        points = (Point(at=1, value=value, time_s=1.0),)
        outcome = "nan" if math.isnan(value) else "finished"
        history = history.put(Trial(number=number, config=config, origin="x", points=points, outcome=outcome))
    return best


def test_it_is_better_than_random_search():
    kde = sorted(best_of(Kde(), seed) for seed in range(7))
    luck = sorted(best_of(Random(), seed) for seed in range(7))
    assert kde[3] < luck[3] / 2


def trial(number: int, kind: str, at: int, value: float, outcome="paused") -> Trial:
    config = {"lr": 10 ** -(1.6 + number % 4), "kind": kind, "depth": 4}
    points = tuple(Point(at=rung, value=value, time_s=1.0) for rung in (1, 3) if rung <= at)
    return Trial(number=number, config=config, origin="x", points=points, outcome=outcome)


def share(history: History, kind: str) -> float:
    found = [Kde().propose(SPACE, history, random.Random(seed))["kind"] for seed in range(60)]
    return found.count(kind) / len(found)


def test_the_model_is_of_the_highest_rung_with_enough_results():
    early = [trial(number, "a", 1, 0.1 + number / 100) for number in range(10)]
    late = [trial(number, "c" if number < 12 else "a", 3, number / 10) for number in range(10, 17)]
    assert share(History(trials=(*early, *late), sign=1, rungs=(1, 3)), "c") > 0.6
    assert share(History(trials=(*early, *late[:3]), sign=1, rungs=(1, 3)), "c") < 0.4


@pytest.mark.parametrize("outcome", ["nan", None])
def test_failed_and_running_trials_are_bad(outcome):
    known = [trial(number, "abc"[number % 3], 3, 1.0 + number % 2) for number in range(8)]
    more = [trial(number, "a", 0, 0.0, outcome) for number in range(8, 20)]
    before = share(History(trials=tuple(known), sign=1, rungs=(1, 3)), "a")
    assert share(History(trials=(*known, *more), sign=1, rungs=(1, 3)), "a") < before


def test_a_crash_teaches_nothing():
    known = [trial(number, "abc"[number % 3], 3, 1.0 + number % 2) for number in range(8)]
    crashed = [trial(number, "a", 0, 0.0, "crash") for number in range(8, 20)]
    histories = [
        History(trials=tuple(trials), sign=1, rungs=(1, 3)) for trials in (known, [*known, *crashed])
    ]
    first, second = (Kde().propose(SPACE, history, random.Random(1)) for history in histories)
    assert first == second
