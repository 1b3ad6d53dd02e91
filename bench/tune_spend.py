"""Simulated studies with noisy step times and a hard cap: how many spend more than they may."""

from __future__ import annotations

import random

from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.evidence import is_control
from hemostat.tune.journal import Journal
from hemostat.tune.pruners.promotion import PromotionPruner
from hemostat.tune.replay import Pace, Recording, ReplayWorkers
from hemostat.tune.samplers.random import Random
from hemostat.tune.settings import Settings
from hemostat.tune.space import Real, Space
from hemostat.tune.study import Study
from hemostat.tune.trial import Configuration, Point

NUM_STUDIES = 1000
LENGTH = 10
PRICE_USD = 3.0  # of a device for an hour


def recording(config: Configuration) -> Recording:
    """A run whose speed depends on its configuration, up to a factor of 4."""
    step_s = 20.0 + 60.0 * float(config["width"])
    return Recording(
        points=[
            Point(at=at, value=float(config["lr"]) + 1 / at, time_s=step_s * at)
            for at in range(1, LENGTH + 1)
        ]
    )


def overspends(seed: int) -> bool:
    """Tell whether one study went over its cap.

    Half of the caps are of the clock, half of dollars; step times vary by a logarithm of 0.1 to 0.5 and saving takes
    up to half a minute. The forecast of the speed is that of the slowest run, as the plan would give it.
    """
    rng = random.Random(seed)
    save_s = rng.uniform(0.0, 30.0)
    cap_s = 80.0 * LENGTH * rng.uniform(3.0, 6.0)
    usd = cap_s / 3600 * PRICE_USD
    caps = {"max_s": cap_s} if seed % 2 else {"max_usd": usd, "usd_per_device_hour": PRICE_USD}
    budget = Budget(s_per_unit=80.0, save_s=save_s, speed=("width",), **caps)
    settings = Settings(length=LENGTH, step=1, seed=seed, budget=budget)
    space = Space((Real("lr", 1e-4, 1e-1), Real("width", 0.0, 1.0)))
    study = Study(Journal(None), space, Random(), PromotionPruner(), settings, control=is_control)
    pace = Pace(save_s=save_s, noise=rng.uniform(0.1, 0.5), seed=seed)
    drive(study, ReplayWorkers(recording, rng.randint(1, 8), pace=pace))
    spent_usd = study.busy_s * PRICE_USD / 3600
    return study.clock_s > cap_s + 1e-6 if seed % 2 else spent_usd > usd + 1e-9
