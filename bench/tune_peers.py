"""What people use instead, over the same recorded runs: grids, random search, Optuna and its pruners, one epoch."""

from __future__ import annotations

import heapq
import math
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import optuna

from hemostat.tune.space import Choice, Integer
from tune_data import NUM_WORKERS, Problem
from tune_pool import Pool

MAX_TRIALS = 300  # of Optuna, whose pruners read all trials at each step of one

Tell = Callable[[int, float], bool]  # position, value -> goes on


class Peer(Protocol):
    """Says which row is run next and how far, and is told every value."""

    def ask(self) -> tuple[int, Tell] | None:
        """A row and what is told its values; None when there is nothing left."""
        ...


def _goes_on(at: int, value: float) -> bool:
    return True


class InOrder:
    """Whole runs, one after the other.

    Args:
        rows: in this order.
    """

    def __init__(self, rows: list[int]) -> None:
        self._rows: Iterator[int] = iter(rows)

    def ask(self) -> tuple[int, Tell] | None:
        """The next one."""
        row = next(self._rows, None)
        return None if row is None else (row, _goes_on)


class OptunaPeer:
    """Optuna by ask and tell; a proposal becomes the nearest recorded configuration that has not been run.

    Args:
        pool: what was recorded.
        seed: of the sampler.
        pruner: one of Optuna's.
    """

    def __init__(self, pool: Pool, seed: int, pruner: optuna.pruners.BasePruner) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed)
        self._study = optuna.create_study(sampler=sampler, pruner=pruner)
        self._pool, self._taken = pool, set[int]()
        self._axes = {each.name: _distribution(each) for each in pool.space.parameters}

    def ask(self) -> tuple[int, Tell] | None:
        """The sampler's next proposal."""
        if len(self._taken) >= MAX_TRIALS:
            return None
        for _ in range(100):
            trial = self._study.ask(self._axes)
            row = self._pool.nearest(dict(trial.params), self._taken)
            if row is None:
                return None
            if row not in self._taken:
                break
            self._study.tell(trial, self._end(row))
        self._taken.add(row)
        return row, lambda at, value: self._told(trial, at, value)

    def _end(self, row: int) -> float:
        """The value of a row that was run before, which Optuna proposes again."""
        return float(self._pool.problem.values[row, -1])

    def _told(self, trial: Any, at: int, value: float) -> bool:
        if not math.isfinite(value):
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return False
        if at == self._pool.problem.length:
            self._study.tell(trial, value)
            return False
        trial.report(value, at)
        if trial.should_prune():
            self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return False
        return True


def _distribution(each: Any) -> optuna.distributions.BaseDistribution:
    if isinstance(each, Choice):
        return optuna.distributions.CategoricalDistribution(each.values)
    kind = (
        optuna.distributions.IntDistribution
        if isinstance(each, Integer)
        else optuna.distributions.FloatDistribution
    )
    return kind(each.low, each.high, log=each.scale == "log")


def random_rows(problem: Problem, seed: int) -> list[int]:
    """All recorded configurations in random order, of large tables as many as can be needed."""
    rng = random.Random(seed)
    return rng.sample(range(len(problem.rows)), min(len(problem.rows), 5000))


def shuffled(problem: Problem, seed: int) -> list[int]:
    """The grid in random order."""
    return random.Random(seed).sample(problem.grid, len(problem.grid))


def time_to_target_s(problem: Problem, peer: Peer) -> float:
    """Clock at which a run that is good enough ends; the time of the whole grid where none does before it."""
    clock_s = 0.0
    running: list[tuple[float, int, int, int, Tell]] = []
    number = 0

    def start() -> None:
        nonlocal number
        while len(running) < NUM_WORKERS and (asked := peer.ask()) is not None:
            row, tell = asked
            heapq.heappush(running, (clock_s + float(problem.times_s[row, 0]), number, row, 1, tell))
            number += 1

    start()
    while running:
        clock_s, order, row, at, tell = heapq.heappop(running)
        if clock_s >= problem.budget_s:
            break
        value = float(problem.values[row, at - 1])
        if value <= problem.target and (at == problem.length or problem.family == "algoperf"):
            return clock_s
        goes_on = tell(at, value)
        if goes_on and math.isfinite(value) and at < problem.length:
            step_s = float(problem.times_s[row, at] - problem.times_s[row, at - 1])
            heapq.heappush(running, (clock_s + step_s, order, row, at + 1, tell))
        start()
    return problem.budget_s


def one_epoch_s(problem: Problem, seed: int) -> float:
    """Clock at which the target is met when the grid is run for one evaluation each, then whole from the best down."""
    rows = shuffled(problem, seed)
    first_s = _scheduled_s([float(problem.times_s[row, 0]) for row in rows])[-1]
    ranked = sorted(rows, key=lambda row: (not math.isfinite(problem.values[row, 0]), problem.values[row, 0]))
    rest_s = _scheduled_s([float(problem.times_s[row, -1] - problem.times_s[row, 0]) for row in ranked])
    ends = [
        first_s + s
        for row, s in zip(ranked, rest_s, strict=True)
        if problem.values[row, -1] <= problem.target
    ]
    return min([problem.budget_s, *ends])


def _scheduled_s(durations_s: list[float]) -> list[float]:
    """When each run ends that 5 workers take in order; the last entry is when all have ended."""
    free_s, ends = [0.0] * NUM_WORKERS, []
    for duration_s in durations_s:
        ends.append(free_s[0] + duration_s)
        heapq.heapreplace(free_s, ends[-1])
    return [*ends[:-1], max(free_s)] if ends else [0.0]


def peer(name: str, pool: Pool, seed: int) -> Peer:
    """A baseline by its name."""
    problem = pool.problem
    if name == "grid":
        return InOrder(list(problem.grid))
    if name == "random_grid":
        return InOrder(shuffled(problem, seed))
    if name == "random":
        return InOrder(random_rows(problem, seed))
    pruners = {
        "optuna": optuna.pruners.NopPruner(),
        "optuna_hyperband": optuna.pruners.HyperbandPruner(),
        "optuna_median": optuna.pruners.MedianPruner(),
    }
    return OptunaPeer(pool, seed, pruners[name])
