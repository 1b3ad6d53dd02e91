"""A study over made-up curves, for the tests of the engine."""

from __future__ import annotations

import math
import random

import pytest

from hemostat.tune.drive import drive
from hemostat.tune.journal import Journal
from hemostat.tune.pruners import PRUNERS
from hemostat.tune.replay import Pace, Recording, ReplayWorkers
from hemostat.tune.settings import Settings
from hemostat.tune.space import Choice, Real, Space
from hemostat.tune.study import Study
from hemostat.tune.trial import Point

LENGTH = 30


class Draw:
    """A sampler without a memory."""

    name = "random"

    def propose(self, space, history, rng):
        return space.sample(rng)


class Lab:
    """Makes studies and workers over curves that follow from the configuration alone."""

    space = Space((Real("lr", 1e-4, 1.0), Choice("batch", (8, 16, 32))))

    def find(self, config) -> Recording:
        rng = random.Random(str(sorted(config.items())))
        miss = math.log10(config["lr"]) + 2  # the best rate is 0.01
        points, time_s = [], 0.0
        for at in range(1, LENGTH + 1):
            time_s += rng.uniform(8.0, 12.0) * (config["batch"] / 16) ** 0.5
            broken = config["lr"] > 0.5 and at == 7
            value = math.nan if broken else 0.1 * miss * miss + 1 / at + rng.gauss(0.0, 0.01)
            points.append(Point(at=at, value=value, time_s=time_s))
        return Recording(points=points)

    def study(self, journal=None, pruner="asha", limit=40, **change) -> Study:
        """A new study, or with `settings=None` one that goes on; it stops by itself after `limit` trials."""

        def stop(space, history):
            return f"{limit} trials are enough" if len(history.trials) >= limit else None

        parts = {name: change.pop(name) for name in ("control", "sampler", "space", "stop") if name in change}
        settings = change.pop("settings", None)
        goes_on = journal is not None and journal.entries
        if settings is None and not goes_on:
            settings = Settings(**{"length": LENGTH, "step": 1, **change})
        space = parts.pop("space", self.space)
        sampler = parts.pop("sampler", Draw())
        return Study(
            Journal(None) if journal is None else journal,
            space,
            sampler,
            PRUNERS[pruner](),
            settings,
            **{"stop": stop, **parts},
        )

    def workers(self, study, find=None, num_workers=5, **pace) -> ReplayWorkers:
        return ReplayWorkers(
            find or self.find,
            num_workers,
            can_pause=study.settings.can_pause,
            pace=Pace(**pace),
            now_s=study.clock_s,
        )

    def run(self, study, find=None, **pace) -> str:
        return drive(study, self.workers(study, find, **pace))


@pytest.fixture
def lab() -> Lab:
    return Lab()
