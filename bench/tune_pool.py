"""Recorded configurations as a space: a proposal becomes the nearest recorded configuration that has not been run."""

from __future__ import annotations

import random
from functools import cached_property
from typing import Any

import numpy as np

from hemostat.tune.replay import Recording
from hemostat.tune.sampler import Sampler
from hemostat.tune.space import Choice, Integer, Parameter, Real, Space
from hemostat.tune.trial import Configuration, History, Point
from tune_data import Axis, Lattice, Problem


def parameter(axis: Axis) -> Parameter:
    """The parameter of an axis."""
    if axis.kind in ("ordered", "names"):
        levels = [str(level) for level in axis.levels] if axis.kind == "names" else axis.levels
        return Choice(axis.name, tuple(levels))
    low, high = axis.levels
    return (Integer if axis.kind == "integer" else Real)(axis.name, low, high, log=axis.log or None)


class Pool:
    """What was recorded of a problem.

    Args:
        problem: the task.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.space = Space(tuple(parameter(axis) for axis in problem.axes))
        self._names = [axis.kind == "names" for axis in problem.axes]

    @cached_property
    def cube(self) -> np.ndarray:
        """All recorded configurations in the unit cube."""
        return np.array([self.space.encode(self.config(index)) for index in range(len(self.problem.rows))])

    @cached_property
    def _index(self) -> dict[tuple[Any, ...], int]:
        return {tuple(self.config(index).values()): index for index in range(len(self.problem.rows))}

    def config(self, index: int) -> Configuration:
        """A recorded configuration."""
        row = self.problem.rows[index]
        return {
            axis.name: str(value) if is_name else value
            for axis, value, is_name in zip(self.problem.axes, row, self._names, strict=True)
        }

    def index(self, config: Configuration) -> int:
        """Which recorded configuration it is."""
        if isinstance(self.problem.rows, Lattice):
            places = [axis.levels.index(config[axis.name]) for axis in self.problem.axes]
            return int(np.ravel_multi_index(places, self.problem.rows.shape))
        return self._index[tuple(config.values())]

    def nearest(self, config: Configuration, taken: set[int]) -> int | None:
        """The nearest recorded configuration that has not been run; None when all have."""
        if isinstance(self.problem.rows, Lattice):
            return self.index(config)
        if len(taken) == len(self.problem.rows):
            return None
        apart = np.array(self.space.encode(config)) - self.cube
        apart[:, self._names] = apart[:, self._names] != 0
        distance = (apart**2).sum(axis=1)
        distance[list(taken)] = np.inf
        return int(distance.argmin())

    def recording(self, config: Configuration) -> Recording:
        """Its curve."""
        index = self.index(config)
        values, times_s = self.problem.values[index], self.problem.times_s[index]
        points = [
            Point(at=at + 1, value=float(value), time_s=float(time_s))
            for at, (value, time_s) in enumerate(zip(values, times_s, strict=True))
        ]
        return Recording(points=points)


class PoolSampler:
    """A sampler whose proposals are moved to what was recorded.

    Args:
        inner: proposes.
        pool: what was recorded.
    """

    def __init__(self, inner: Sampler, pool: Pool) -> None:
        self.name = inner.name
        self._inner, self._pool = inner, pool

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """The nearest recorded configuration that no trial has had."""
        wanted = self._inner.propose(space, history, rng)
        if wanted is None:
            return None
        taken = {self._pool.index(trial.config) for trial in history.trials}
        found = self._pool.nearest(wanted, taken)
        return None if found is None else self._pool.config(found)
