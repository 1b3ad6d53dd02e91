"""One study over recorded runs: the real Study, driven over replay workers, and when it found what it should."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hemostat.tune.budget import Budget
from hemostat.tune.drive import drive
from hemostat.tune.evidence import is_control
from hemostat.tune.journal import Journal
from hemostat.tune.pruner import Pruner
from hemostat.tune.pruners.promotion import PromotionPruner
from hemostat.tune.replay import ReplayWorkers
from hemostat.tune.sampler import Sampler
from hemostat.tune.samplers.gp import Gp
from hemostat.tune.settings import Given, Settings
from hemostat.tune.space import Space
from hemostat.tune.study import Study
from hemostat.tune.trial import Configuration, History
from tune_data import NUM_WORKERS, Problem
from tune_pool import Pool, PoolSampler


class Result(NamedTuple):
    """What became of one study.

    Attributes:
        found_s: clock when the target was reached; infinite if never.
        ended_s: clock when the study stopped.
        why: what it said then.
        num_trials: how many it started.
    """

    found_s: float
    ended_s: float
    why: str
    num_trials: int


class Method(NamedTuple):
    """What is driven.

    Attributes:
        sampler, pruner: as in `Study`.
        stop, control: as in `Study`.
        can_pause: trials wait at rungs.
    """

    sampler: Sampler
    pruner: Pruner
    stop: Callable[[Space, History], str | None] | None = None
    control: Callable[[History, int], bool] | None = None
    can_pause: bool = True


def default_method(stop: Callable[[Space, History], str | None] | None) -> Method:
    """What `hemostat tune` does when nothing is chosen."""
    return Method(Gp(), PromotionPruner(), stop, is_control)


def run_study(
    pool: Pool, method: Method, seed: int, start: Sequence[Configuration] = (), *, to_target: bool = False
) -> Result:
    """Replay one study, with the time of the whole grid as its hard cap.

    Args:
        pool: the problem.
        method: what is driven.
        seed: of the study.
        start: its first round; it is moved to what was recorded.
        to_target: end as soon as the target is reached.
    """
    problem = pool.problem
    settings = Settings(
        length=problem.length,
        step=1,
        seed=seed,
        can_pause=method.can_pause,
        first_round=tuple(Given(origin="scaling law", config=config) for config in recorded(pool, start)),
        budget=Budget(max_s=problem.budget_s),
    )
    sampler = PoolSampler(method.sampler, pool)
    study = Study(Journal(None), pool.space, sampler, method.pruner, settings, method.stop, method.control)
    found_s = [math.inf]

    def watch(study: Study) -> None:
        if math.isinf(found_s[0]) and _is_found(problem, study.history):
            found_s[0] = study.clock_s
            if to_target:
                raise FoundError

    try:
        why = drive(study, ReplayWorkers(pool.recording, NUM_WORKERS, can_pause=method.can_pause), watch)
    except FoundError:
        why = "found"
    return Result(found_s[0], study.clock_s, why, len(study.history.trials))


class FoundError(Exception):
    """Ends a replay that need not go on."""


def recorded(pool: Pool, wanted: Sequence[Configuration]) -> list[Configuration]:
    """For each configuration the nearest recorded one that none before it has taken."""
    taken: list[int] = []
    for config in wanted:
        found = pool.nearest(config, set(taken))
        if found is not None:
            taken.append(found)
    return [pool.config(index) for index in taken]


def _is_found(problem: Problem, history: History) -> bool:
    """A run that ended is good enough; a run of AlgoPerf ends when it reaches the target."""
    anywhere = problem.family == "algoperf"
    return any(
        trial.points
        and (anywhere or trial.position == problem.length)
        and trial.points[-1].value <= problem.target
        for trial in history.trials
    )
