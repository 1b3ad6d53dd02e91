"""Which parameters decide, and which only seem to."""

from __future__ import annotations

import random

import pytest

from hemostat.tune.importance import MIN_TRIALS, importance, ranked
from hemostat.tune.space import Choice, Real, Space
from hemostat.tune.trial import History, Point, Trial

SPACE = Space(
    (Real("lr", 1e-4, 1.0), Real("dropout", 0.0, 0.5), Choice("activation", ("relu", "gelu", "tanh")))
)


def history(score, num_trials: int = 80, seed: int = 0) -> History:
    rng = random.Random(seed)
    trials = []
    for number in range(num_trials):
        config = SPACE.sample(rng)
        point = Point(at=9, value=score(config, rng), time_s=1.0)
        trials.append(
            Trial(number=number, config=config, origin="random", points=(point,), outcome="finished")
        )
    return History(trials=tuple(trials), sign=1, rungs=(9,))


def test_what_decides_comes_first() -> None:
    found = importance(SPACE, history(lambda config, rng: abs(SPACE.encode(config)[0] - 0.4)))
    assert found[0].name == "lr"
    assert found[0].share > 0.8 and found[0].p_value < 0.02
    assert sum(each.share for each in found) == pytest.approx(1.0)


def test_a_category_can_decide() -> None:
    found = importance(
        SPACE, history(lambda config, rng: (config["activation"] != "gelu") + 0.1 * rng.random())
    )
    assert found[0].name == "activation" and found[0].p_value < 0.02


def test_noise_alone_is_told_from_an_effect_as_often_as_its_p_value_says() -> None:
    low = 0
    for seed in range(30):
        found = importance(SPACE, history(lambda config, rng: rng.random(), num_trials=40, seed=seed))
        low += sum(each.p_value < 0.05 for each in found)
    assert low <= 12  # 90 values, 4.5 expected; more than 12 has a chance of 0.1 %


def test_failures_are_the_worst_and_those_who_came_further_are_better() -> None:
    def trial(number, points, outcome):
        points = tuple(Point(at=at, value=value, time_s=1.0) for at, value in points)
        return Trial(number=number, config={}, origin="x", points=points, outcome=outcome)

    trials = (
        trial(0, [], "nan"),
        trial(1, [(3, 0.1)], "paused"),
        trial(2, [(3, 0.2), (9, 0.3)], "finished"),
        trial(3, [(3, 0.15), (9, 0.5)], "finished"),
        trial(4, [], None),
        trial(5, [], "crash"),
    )
    order = ranked(History(trials=trials, sign=1, rungs=(3, 9)))
    assert [each.number for each in order] == [2, 3, 1, 0]


def test_few_trials_say_nothing() -> None:
    assert importance(SPACE, history(lambda config, rng: rng.random(), num_trials=MIN_TRIALS - 1)) == []
