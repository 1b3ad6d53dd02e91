"""Repeats of the best trials with other seeds."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.errors import FieldError
from hemostat.tune.confirm import Repeating, confirm_space, contenders, seed_scores
from hemostat.tune.drive import drive
from hemostat.tune.journal import Journal
from hemostat.tune.luck import seed_noise, standings
from hemostat.tune.pruners import pruner
from hemostat.tune.replay import Recording, ReplayWorkers
from hemostat.tune.settings import Settings
from hemostat.tune.study import Study
from hemostat.tune.trial import History, Point, Trial
from hemostat.tune.workers import Order


class EachInTurn:
    """Every configuration of a finite space, in order."""

    name = "each"

    def propose(self, space, history, rng):
        tried = {space.key(trial.config) for trial in history.trials}
        return next((config for config in space.configs() if space.key(config) not in tried), None)


def first_study(values: list[float]) -> History:
    trials = tuple(
        Trial(
            number=number,
            config={"lr": 0.1 * (number + 1)},
            origin="random",
            points=(Point(at=9, value=value, time_s=9.0),),
            outcome="finished",
        )
        for number, value in enumerate(values)
    )
    return History(trials=trials, sign=1, rungs=(9,))


class Noisy(ReplayWorkers):
    """Runs whose value depends on the seed of the order; keeps the orders it was given."""

    def __init__(self) -> None:
        super().__init__(self._run, num_workers=2)
        self.given: list[Order] = []

    def start(self, order: Order) -> None:
        self.given.append(order)
        super().start(order)

    def _run(self, config):
        value = config["lr"] + random.Random(self.given[-1].seed).gauss(0, 0.01)
        return Recording(points=[Point(at=9, value=value, time_s=9.0)])


def test_the_best_run_again_with_their_own_parameters_and_seeds_of_their_own() -> None:
    first = first_study([0.3, 0.1, 0.2, math.nan, 0.5])
    top = contenders(first)
    assert [trial.number for trial in top] == [1, 2, 0]
    space, workers = confirm_space(top, 3), Noisy()
    study = Study(Journal(None), space, EachInTurn(), pruner("none"), Settings(length=9, step=9))
    drive(study, Repeating(workers, {trial.number: trial.config for trial in top}))
    assert len(workers.given) == 9
    assert len({order.seed for order in workers.given}) == 9
    assert sorted({order.config["lr"] for order in workers.given}) == pytest.approx([0.1, 0.2, 0.3])
    scores = seed_scores(first, study.history)
    assert {number: len(runs) for number, runs in scores.items()} == {0: 4, 1: 4, 2: 4, 4: 1}
    noise = seed_noise(scores)
    assert noise is not None and 0 < noise < 0.2
    # the best run of the first study had lr 0.2; that of the mean over seeds is lr 0.1
    assert standings(scores, noise)[0].name in (0, 1)


def test_a_repeat_that_failed_counts_for_nothing() -> None:
    first = first_study([0.3, 0.1])
    repeats = History(
        trials=(Trial(number=0, config={"trial": 1, "seed": 0}, origin="each", outcome="nan"),),
        sign=1,
        rungs=(9,),
    )
    assert seed_scores(first, repeats) == {0: [0.3], 1: [0.1]}


def test_nothing_to_confirm_is_said() -> None:
    with pytest.raises(FieldError, match="no trial has reached the end"):
        contenders(first_study([math.nan]))
    with pytest.raises(FieldError, match="confirm=0"):
        confirm_space(contenders(first_study([0.1])), 0)
