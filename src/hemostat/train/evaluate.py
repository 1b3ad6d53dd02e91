"""Evaluation over all ranks: every row once, sums and counts pooled in float64, one number for all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from hemostat.data import MicroBatch
from hemostat.errors import TaskError
from hemostat.task import evaluation_mode, to_device
from hemostat.train.process import World

Measure = Callable[[torch.nn.Module, Any], Mapping[str, tuple[Any, Any]]]


def evaluate(
    model: torch.nn.Module, batches: Iterable[MicroBatch], measure: Measure, world: World
) -> dict[str, float]:
    """Pool each metric over all rows and ranks.

    Running statistics are averaged over the ranks first, so that every rank judges the same model.

    Args:
        model: the unwrapped module; the mode of each of its parts is restored.
        batches: this rank's share, equally many batches on all ranks.
        measure: (model, batch) -> name: (sum, count).
        world: the ranks.

    Returns:
        name: sum / count, the same bits on all ranks; NaN where nothing was counted.

    Raises:
        TaskError: `measure` returned no pairs, or names that change from batch to batch or from rank to rank.
    """
    world.average_(list(model.buffers()))
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    with evaluation_mode(model), torch.no_grad():
        for micro in batches:
            if not micro.num_samples:
                continue  # no collective waits in an unwrapped forward, so a filler need not be computed
            values = measure(model, to_device(micro.data, world.device))
            _check_pairs(values)
            if sums and sums.keys() != values.keys():
                raise TaskError(
                    f"metrics returned {sorted(values)} after {sorted(sums)}. Return the same names."
                )
            for name, (total, count) in values.items():
                sums[name] = sums.get(name, 0.0) + float(total)
                counts[name] = counts.get(name, 0.0) + float(count)
    # the last rank always holds a row, so it knows the names; a rank without rows adds zeros
    names: list[str] = json.loads(world.from_last_rank(json.dumps(sorted(sums))))
    differ = float(bool(sums) and sorted(sums) != names)
    mine = [*(sums.get(name, 0.0) for name in names), *(counts.get(name, 0.0) for name in names)]
    *pooled, num_differing = world.sum([*mine, differ])
    if num_differing:
        raise TaskError(
            f"metrics returned {sorted(sums)} on one rank and {names} on another. Return the same names."
        )
    halves = zip(pooled[: len(names)], pooled[len(names) :], strict=True)
    return {
        name: total / count if count else float("nan")
        for name, (total, count) in zip(names, halves, strict=True)
    }


def _check_pairs(values: Any) -> None:
    if not isinstance(values, Mapping):
        raise TaskError(f"measure returned a {type(values).__name__}. Return {{name: (sum, count)}}.")
    for name, pair in values.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TaskError(
                f"measure gave a {type(pair).__name__} for {name!r}. Return {{name: (sum, count)}}."
            )
