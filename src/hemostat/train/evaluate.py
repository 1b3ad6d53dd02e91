"""Evaluation over all ranks: every row once, sums and counts pooled in float64, one number for all."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from hemostat.data import MicroBatch
from hemostat.errors import TaskError
from hemostat.task import evaluation_mode, to_device
from hemostat.train.interrupt import Interrupt
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.process import World

MIN_BATCHES = 5
LOOK_S = 0.5
MAX_BATCHES = 256
_NOTHING = (0.0,) * 6


class Pooled(NamedTuple):
    """Metrics over all rows and ranks, the same bits on all ranks.

    Attributes:
        means: name: sum / count; NaN where nothing was counted.
        errors: name: standard error of that mean over other rows of the same kind; only where five batches were seen.
    """

    means: dict[str, float]
    errors: dict[str, float]


Measure = Callable[[torch.nn.Module, Any], Mapping[str, tuple[Any, Any]]]


def evaluate(
    model: torch.nn.Module,
    batches: Iterable[MicroBatch],
    measure: Measure,
    mesh: Mesh,
    interrupt: Interrupt | None = None,
) -> Pooled | None:
    """Pool each metric over all rows and ranks.

    Running statistics are averaged over the ranks first, so that every rank judges the same model.

    Args:
        model: the unwrapped module; the mode of each of its parts is restored. Where the ranks meet in its forward,
            fillers are computed too, and only one rank counts of those with the same samples.
        batches: this rank's share, equally many batches on all ranks.
        measure: (model, batch) -> name: (sum, count).
        mesh: the ranks.
        interrupt: asked on all ranks together about twice a second.

    Returns:
        None where a signal came meanwhile, on whichever rank: all of them give up after the same batch.

    Raises:
        TaskError: `measure` returned no pairs, or names that change from batch to batch or from rank to rank.
    """
    world, meets = mesh.world, not mesh.layout.is_dp
    mesh.average_(list(model.buffers()))
    sums = _Sums()
    look = _Look(world, interrupt)
    with evaluation_mode(model), torch.no_grad():
        for micro in batches:
            world.pulse.meet()  # a long evaluation that goes on is no hang
            if look.interrupted():
                return None
            if not (micro.num_samples or meets):
                continue  # no collective waits in an unwrapped forward, so a filler need not be computed
            values = measure(model, to_device(micro.data, world.device))
            if micro.num_samples:
                sums.add(values)
    return sums.pooled(mesh)


class _Sums:
    """Adds up the pairs of this rank's batches.

    Attributes:
        rows: name: sum, count, and of the batches sum^2, sum * count, count^2, how many.
    """

    def __init__(self) -> None:
        self.rows: dict[str, tuple[float, ...]] = {}

    def add(self, values: Mapping[str, tuple[Any, Any]]) -> None:
        """Take one batch.

        Raises:
            TaskError: no pairs, or other names than before.
        """
        _check_pairs(values)
        if self.rows and self.rows.keys() != values.keys():
            raise TaskError(
                f"metrics returned {sorted(values)} after {sorted(self.rows)}. Return the same names."
            )
        for name, (total, count) in values.items():
            part, size = float(total), float(count)
            more = (part, size, part * part, part * size, size * size, 1.0)
            self.rows[name] = tuple(a + b for a, b in zip(self.rows.get(name, _NOTHING), more, strict=True))

    def pooled(self, mesh: Mesh) -> Pooled:
        """Those of all ranks together.

        Raises:
            TaskError: other names on another rank.
        """
        world = mesh.world
        # the last rank always holds a row, so it knows the names; a rank without rows adds zeros
        names: list[str] = json.loads(world.from_last_rank(json.dumps(sorted(self.rows))))
        differ = float(bool(self.rows) and sorted(self.rows) != names)
        mine = [self.rows.get(name, _NOTHING) if mesh.counts else _NOTHING for name in names]
        *pooled, num_differing = world.sum([*(value for row in mine for value in row), differ])
        if num_differing:
            raise TaskError(
                f"metrics returned {sorted(self.rows)} on one rank and {names} on another. Return the same names."
            )
        rows = {name: pooled[6 * index : 6 * index + 6] for index, name in enumerate(names)}
        means = {name: row[0] / row[1] if row[1] else math.nan for name, row in rows.items()}
        errors = {
            name: standard_error(*row) for name, row in rows.items() if row[1] and row[5] >= MIN_BATCHES
        }
        return Pooled(means, errors)


class _Look:
    """Asks all ranks for signals after the same batches, so often that it takes them about half a second."""

    def __init__(self, world: World, interrupt: Interrupt | None) -> None:
        self._world, self._interrupt = world, interrupt
        self._left = self._every = 1
        self._looked_s = time.perf_counter()

    def interrupted(self) -> bool:
        self._left -= 1
        if self._interrupt is None or self._left >= 0:
            return False
        took_s = time.perf_counter() - self._looked_s
        signals, mean_s = self._world.sum([float(bool(self._interrupt.name)), took_s / self._world.num_ranks])
        # the mean is equal on all ranks, and so is what follows from it
        self._every = int(min(max(self._every * LOOK_S / max(mean_s, 1e-6), 1), 8 * self._every, MAX_BATCHES))
        self._left, self._looked_s = self._every - 1, time.perf_counter()
        return signals > 0


def standard_error(
    total: float, count: float, square: float, product: float, count_square: float, num_batches: float
) -> float:
    """Standard error of total / count, from how the batches differ.

    Args:
        total: sum over all batches.
        count: terms of that sum.
        square: sum of the squared batch sums.
        product: sum of batch sum times batch count.
        count_square: sum of the squared batch counts.
        num_batches: how many.

    Source: Cochran 1977, Sampling Techniques, eq. 2.45 (ratio of two sums), each batch being one unit.

    Examples:
        >>> standard_error(12.0, 4.0, 4.0 + 100.0, 2.0 * 2 + 10.0 * 2, 8.0, 2)  # sums 2 and 10, of 2 terms each
        2.0
    """
    mean = total / count
    scatter = max(0.0, square - 2.0 * mean * product + mean * mean * count_square)
    return math.sqrt(scatter * num_batches / (num_batches - 1.0)) / count


def _check_pairs(values: Any) -> None:
    if not isinstance(values, Mapping):
        raise TaskError(f"measure returned a {type(values).__name__}. Return {{name: (sum, count)}}.")
    for name, pair in values.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TaskError(
                f"measure gave a {type(pair).__name__} for {name!r}. Return {{name: (sum, count)}}."
            )
