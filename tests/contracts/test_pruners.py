"""What every pruner must do; an implementation subclasses `PrunerContract`."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.errors import UnknownNameError
from hemostat.tune.drive import drive
from hemostat.tune.journal import Journal
from hemostat.tune.pruners import PRUNERS, pruner
from hemostat.tune.replay import Recording, ReplayWorkers
from hemostat.tune.settings import Settings
from hemostat.tune.space import Real, Space
from hemostat.tune.study import Study
from hemostat.tune.trial import History, Point

SPACE = Space((Real("lr", 1e-4, 1.0),))


class Draw:
    name = "random"

    def propose(self, space, history, rng):
        return space.sample(rng)


def find(config):
    rng = random.Random(config["lr"])
    broken_at = rng.randrange(1, 31) if config["lr"] > 0.3 else 99
    speed = rng.uniform(0.5, 3.0)
    values = [
        math.nan if at == broken_at else config["lr"] + 1 / at + rng.gauss(0, 0.02) for at in range(1, 31)
    ]
    points = [Point(at=at, value=value, time_s=at * speed) for at, value in enumerate(values, start=1)]
    return Recording(points=points)


class PrunerContract:
    """Subclasses name the pruner."""

    name: str
    fewest_finished = 2  # of 200 trials

    @pytest.fixture
    def pruner(self):
        return pruner(self.name)

    def run(self, can_pause: bool, num_trials: int = 200, direction="min", watch=None) -> Study:
        def stop(space, history):
            return "enough" if len(history.trials) >= num_trials else None

        settings = Settings(length=30, step=1, can_pause=can_pause, direction=direction)
        study = Study(Journal(None), SPACE, Draw(), pruner(self.name), settings, stop)
        drive(study, ReplayWorkers(find, can_pause=can_pause), watch)
        return study

    def test_it_is_listed_under_its_name(self, pruner):
        assert pruner.name == self.name
        assert type(pruner) is PRUNERS[self.name]

    @pytest.mark.parametrize(
        ("length", "step"), [(1, 1), (50, 1), (1000, 100), (7, 3), (2, 1), (99_999, 1000)]
    )
    def test_rungs_are_evaluations_that_increase_up_to_the_end(self, pruner, length, step):
        rungs = pruner.rungs(length, step)
        assert rungs[-1] == length
        assert list(rungs) == sorted(set(rungs)) and rungs[0] > 0
        assert all(at % step == 0 for at in rungs[:-1])

    def test_a_new_trial_starts_towards_a_rung(self, pruner):
        history = History(trials=(), sign=1, rungs=pruner.rungs(30, 1))
        assert {pruner.first_rung(history, number) for number in range(100)} <= set(history.rungs)

    def test_nothing_is_promoted_from_nothing(self, pruner):
        assert pruner.promote(History(trials=(), sign=1, rungs=pruner.rungs(30, 1))) is None

    @pytest.mark.parametrize("can_pause", [True, False])
    def test_some_trials_reach_the_end_and_good_ones_more_often(self, can_pause):
        study = self.run(can_pause)
        finished = [trial for trial in study.history.trials if trial.outcome == "finished"]
        assert len(finished) >= self.fewest_finished
        mean = sum(trial.config["lr"] for trial in finished) / len(finished)
        assert mean < sum(trial.config["lr"] for trial in study.history.trials) / len(study.history.trials)

    @pytest.mark.parametrize("can_pause", [True, False])
    def test_a_failure_is_never_promoted_or_kept(self, can_pause):
        judge = pruner(self.name)

        def watch(study):
            trial = judge.promote(study.history)
            assert trial is None or (trial.outcome == "paused" and trial.position in study.history.rungs[:-1])
            assert trial is None or study.history.score(trial, trial.position) < math.inf

        self.run(can_pause, 60, watch=watch)

    def test_the_answer_follows_from_the_history_alone(self):
        used = pruner(self.name)

        def watch(study):
            fresh, history = pruner(self.name), study.history
            again = History(trials=history.trials, sign=history.sign, rungs=history.rungs)
            assert used.promote(history) == fresh.promote(again)
            number = len(history.trials)
            assert used.first_rung(history, number) == fresh.first_rung(again, number)

        self.run(True, 60, watch=watch)

    def test_the_direction_is_the_historys(self):
        lowest, highest = self.run(True), self.run(True, direction="max")
        if self.name == "none":
            return
        rung = lowest.history.rungs[0]
        means = []
        for study in (lowest, highest):
            gone_on = [
                trial for trial in study.history.trials if trial.position > rung and trial.outcome != "nan"
            ]
            means.append(sum(trial.config["lr"] for trial in gone_on) / len(gone_on))
        assert means[0] < means[1]


class TestNone(PrunerContract):
    name = "none"
    fewest_finished = 100


class TestHalving(PrunerContract):
    name = "halving"


class TestHyperband(PrunerContract):
    name = "hyperband"
    fewest_finished = 20


class TestAsha(PrunerContract):
    name = "asha"


class TestPromotion(PrunerContract):
    name = "promotion"


def test_every_pruner_has_a_class_here():
    assert {one.name for one in PrunerContract.__subclasses__()} == set(PRUNERS)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'asha'"):
        pruner("ash")
