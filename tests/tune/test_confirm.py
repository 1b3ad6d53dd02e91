"""Repeats of the best trials with other seeds."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.errors import FieldError
from hemostat.launch import Job
from hemostat.tune.confirm import RepeatedJobs, confirm_space, contenders, seed_scores
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


def noisy(config) -> Recording:
    value = 0.1 * (config["trial"] + 1) + random.Random(str(config)).gauss(0, 0.01)
    return Recording(points=[Point(at=9, value=value, time_s=9.0)])


def test_every_contender_runs_again_as_often_as_asked() -> None:
    first = first_study([0.3, 0.1, 0.2, math.nan, 0.5])
    top = contenders(first)
    assert [trial.number for trial in top] == [1, 2, 0]
    study = Study(
        Journal(None), confirm_space(top, 3), EachInTurn(), pruner("none"), Settings(length=9, step=9)
    )
    drive(study, ReplayWorkers(noisy, num_workers=2))
    scores = seed_scores(first, [study.history, study.history])
    assert {number: len(runs) for number, runs in scores.items()} == {0: 7, 1: 7, 2: 7, 4: 1}
    noise = seed_noise(scores)
    assert noise is not None and 0 < noise < 0.2
    # the best run of the first study was trial 1; the best mean over seeds is that of trial 0
    assert standings(scores, noise)[0].name == 0


class Kept:
    """Jobs that keep the orders they are made for."""

    can_pause, metric = True, "val_loss"

    def __init__(self) -> None:
        self.orders: list[Order] = []

    def job(self, order, run_dir, *, resumes):
        self.orders.append(order)
        return Job(command=("true",), run_id=run_dir.name, run_dir=run_dir)

    def pause_at(self, order):
        return order.config["lr"]


def test_a_repeat_trains_with_the_parameters_of_its_trial_and_its_own_seed(tmp_path) -> None:
    first, jobs = first_study([0.3, 0.1]), Kept()
    repeated = RepeatedJobs(jobs, {trial.number: trial.config for trial in first.trials})
    for seed in (11, 12):
        order = Order(trial=seed, config={"trial": 1, "seed": seed}, start=0, until=9, seed=seed)
        repeated.job(order, tmp_path, resumes=False)
        assert repeated.pause_at(order) == 0.2
    assert [(each.config, each.seed) for each in jobs.orders] == [({"lr": 0.2}, 11), ({"lr": 0.2}, 12)]
    assert (repeated.can_pause, repeated.metric) == (True, "val_loss")


def test_a_repeat_that_failed_counts_for_nothing() -> None:
    first = first_study([0.3, 0.1])
    repeats = History(
        trials=(Trial(number=0, config={"trial": 1, "seed": 0}, origin="each", outcome="nan"),),
        sign=1,
        rungs=(9,),
    )
    assert seed_scores(first, [repeats]) == {0: [0.3], 1: [0.1]}


def test_nothing_to_confirm_is_said() -> None:
    with pytest.raises(FieldError, match="no trial has reached the end"):
        contenders(first_study([math.nan]))
    with pytest.raises(FieldError, match="confirm=0"):
        confirm_space(contenders(first_study([0.1])), 0)
