"""KDE: the own sampler draws where good trials lie dense and the others do not; needs numpy only."""

from __future__ import annotations

import math
import random
from typing import Any, Final

from hemostat.tune.samplers.taken import Taken
from hemostat.tune.space import Choice, Parameter, Real, Space
from hemostat.tune.trial import Configuration, History

NUM_BINS: Final = 64  # of a real number; its place inside the bin is drawn
NUM_CANDIDATES: Final = 64
GOOD_SHARE: Final = 0.15
WIDTH: Final = 0.2
MIN_GAPS: Final = 0.5
UNIFORM: Final = 0.05


class Kde:
    """Tree-structured Parzen estimator with one kernel per trial over all parameters together.

    Every parameter has a number of levels (a real number: bins of its scale). A kernel spreads a trial over the
    levels: a bell over ordered ones, the same share for all others of an unordered one. Trials that failed through
    their parameters are bad, running ones count as bad until they are known, so that workers side by side do not
    all ask for the same. The model is of the highest rung that has enough results.

    Source: Bergstra et al. 2011 (NeurIPS) section 4; product kernels and width Watanabe 2023 (arXiv 2304.11127);
        the rung Falkner et al. 2018 (arXiv 1807.01774) section 3.1; the constants are first
        guesses, and ten changes of one at a time were no clear gain (docs/log.md, 2026-12-01).
    """

    name = "kde"

    def __init__(self) -> None:
        self._taken = Taken()
        self._rows: Any = None
        self._axes: list[_Axis] = []

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """The best of many draws that no trial has had; None when all have been had."""
        self._taken.update(space, history)
        self._update_rows(space)
        groups = _groups(space, history)
        if groups is None:
            return self._taken.draw(space, rng)
        return self._best(space, groups, rng) or self._taken.draw(space, rng)

    def _update_rows(self, space: Space) -> None:
        """Levels of all trials, one row each; only the new ones are computed."""
        import numpy

        kept = self._taken.num_kept
        if kept == 0:
            self._axes = [_Axis(parameter) for parameter in space.parameters]
            self._rows = numpy.empty((0, len(self._axes)), dtype=numpy.intp)
        new = [self._row(config) for config in self._taken.configs[kept:]]
        if new:
            self._rows = numpy.concatenate([self._rows[:kept], numpy.array(new, dtype=numpy.intp)])

    def _row(self, config: Configuration) -> list[int]:
        return [axis.level(config) for axis in self._axes]

    def _best(
        self, space: Space, groups: tuple[list[int], list[int]], rng: random.Random
    ) -> Configuration | None:
        import numpy

        draw = numpy.random.default_rng(rng.getrandbits(64))
        good, bad = self._rows[groups[0]], self._rows[groups[1]]
        tables = [axis.table(len(good), len(self._axes)) for axis in self._axes]
        levels = self._drawn(good, tables, draw)
        if any(parameter.when for parameter in space.parameters):
            for row in levels:
                self._drop_absent(space, row)
        wide = [axis.table(len(bad), len(self._axes)) for axis in self._axes]
        scores = _log_density(good, levels, tables) - _log_density(bad, levels, wide)
        for place in numpy.argsort(-scores, kind="stable"):
            config = self._config(space, levels[place], rng)
            if space.key(config) not in self._taken.keys and space.allows(config):
                return config
        return None

    def _drawn(self, good: Any, tables: list[Any], draw: Any) -> Any:
        """Levels drawn from the good density; one of its kernels is the whole space."""
        import numpy

        kernel = draw.integers(len(good) + 1, size=NUM_CANDIDATES)
        columns = []
        for place, axis in enumerate(self._axes):
            centres = numpy.append(good[:, place], axis.num_levels)[kernel]
            edges = numpy.cumsum(tables[place][centres, : axis.num_levels], axis=1)
            hits = draw.random(NUM_CANDIDATES)[:, None] * edges[:, -1:]
            columns.append((edges < hits).sum(axis=1))
        return numpy.stack(columns, axis=1)

    def _drop_absent(self, space: Space, row: Any) -> None:
        """Mark in a row the parameters that do not exist in it."""
        full = {axis.parameter.name: axis.values[level] for axis, level in zip(self._axes, row, strict=True)}
        config = space.complete(full)
        for place, axis in enumerate(self._axes):
            if axis.parameter.name not in config:
                row[place] = axis.num_levels

    def _config(self, space: Space, row: Any, rng: random.Random) -> Configuration:
        return space.decode([axis.unit(int(level), rng) for axis, level in zip(self._axes, row, strict=True)])


class _Axis:
    """The levels of one parameter; the level after the last stands for "does not exist"."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        self.binned = False
        self._first = 0
        if isinstance(parameter, Choice):
            self.places: list[float] = list(parameter.places)
        elif isinstance(parameter, Real) or parameter.num_values > NUM_BINS:
            self.binned = True
            self.places = [(level + 0.5) / NUM_BINS for level in range(NUM_BINS)]
        else:
            self._first = parameter.low
            self.places = [parameter.encode(value) for value in parameter.values]
        self.values = [parameter.decode(place) for place in self.places]
        self.num_levels = len(self.places)
        self._tables: dict[tuple[int, int], Any] = {}

    def level(self, config: Configuration) -> int:
        if self.parameter.name not in config:
            return self.num_levels
        value = config[self.parameter.name]
        if isinstance(self.parameter, Choice):
            return self.parameter.index(value)
        if self.binned:
            return min(int(self.parameter.encode(value) * NUM_BINS), NUM_BINS - 1)
        return int(value - self._first)

    def unit(self, level: int, rng: random.Random) -> float:
        if level >= self.num_levels:
            return 0.5
        return (level + rng.random()) / NUM_BINS if self.binned else self.places[level]

    def table(self, num_trials: int, num_axes: int) -> Any:
        """Density of each level (column) under a kernel at a level (row), relative to an even spread."""
        key = (num_trials, num_axes)
        if key not in self._tables:
            self._tables[key] = self._kernel(num_trials, num_axes)
        return self._tables[key]

    def _kernel(self, num_trials: int, num_axes: int) -> Any:
        import numpy

        count = self.num_levels
        width = WIDTH * max(num_trials, 1) ** (-1 / (num_axes + 4))
        if self.parameter.ordered:
            places = numpy.array(self.places)
            gap = MIN_GAPS / max(count - 1, 1)
            bell = numpy.exp(-0.5 * ((places[:, None] - places[None, :]) / max(width, gap)) ** 2)
        else:
            bell = numpy.eye(count) + 1.0 / (num_trials + 1)
        share = (1 - UNIFORM) * bell / bell.sum(axis=1, keepdims=True) + UNIFORM / count
        table = numpy.ones((count + 1, count + 1))
        table[:count, :count] = share * count
        return table


def _log_density(trials: Any, levels: Any, tables: list[Any]) -> Any:
    """Logarithm of the mean of the kernels at each row of levels; one more kernel is the whole space."""
    import numpy

    product = numpy.ones((len(trials), len(levels)))
    for place, table in enumerate(tables):
        product *= table[trials[:, place]][:, levels[:, place]]
    return numpy.log((product.sum(axis=0) + 1.0) / (len(trials) + 1))


def _groups(space: Space, history: History) -> tuple[list[int], list[int]] | None:
    """Numbers of the good and of the bad trials; None while there are too few results."""
    enough = len(space.parameters) + 2
    for at in reversed(history.rungs):
        board = history.at_rung(at)
        if len(board) < enough or board[0][0] == math.inf:
            continue
        num_good = math.ceil(GOOD_SHARE * len(board))
        good = [trial.number for score, trial in board[:num_good] if score < math.inf]
        bad = [trial.number for _, trial in board[len(good) :]]
        known = {trial.number for _, trial in board}
        bad += [t.number for t in history.trials if t.outcome is None and t.number not in known]
        return good, bad
    return None
