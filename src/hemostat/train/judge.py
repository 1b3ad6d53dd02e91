"""Judges a recorded run on its validation or test data, with standard errors, on any number of ranks."""

from __future__ import annotations

import math
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import torch

from hemostat.data import EvalLoader, Source
from hemostat.errors import FieldError, TaskError
from hemostat.task import LossDoor, Task, build_model, call, to_device
from hemostat.track import RunRecord
from hemostat.train.guards import leaves_digest
from hemostat.train.header import data_fingerprint
from hemostat.train.precision import Precision
from hemostat.train.process import World, seed_everything
from hemostat.train.rank import as_rank
from hemostat.train.recorded_task import load_recorded_task, recorded, task_changes
from hemostat.train.tally import Figure, Tally, part_borders
from hemostat.train.weights import fit_weights, read_weights

MAX_PARTS = 1024
MIN_BLOCKS = 64  # where the data allow it, so that batches give a standard error too
MAX_ROWS = 100_000  # beyond, the rows are not looked at one by one: batches are many enough


def evaluate_rank(
    record: RunRecord, split: str, *, checkpoint: str | None = None, task: str | None = None
) -> int:
    """Evaluate as one rank of a job whose run directory is the evaluation's folder.

    Args:
        record: the run to judge.
        split: "val" or "test".
        checkpoint: see `read_weights`.
        task: see `load_recorded_task`.

    Returns:
        The exit status of this rank; the figures are in the run record.
    """

    def work() -> None:
        world = World.from_environment("cpu" if _settings(record).get("device") == "cpu" else None)
        try:
            fields = judge_run(record, split, world, checkpoint=checkpoint, task=task)
            if world.rank == 0:
                record.add_evaluation(Path(os.environ["HEMOSTAT_RUN_DIR"]).name, fields)
        finally:
            world.close()

    return as_rank(work)


def judge_run(
    record: RunRecord, split: str, world: World, *, checkpoint: str | None = None, task: str | None = None
) -> dict[str, Any]:
    """Figures of a run's weights on one split, as they are recorded.

    The data are cut into blocks whose borders do not depend on the ranks. With the same number of torch threads
    per rank the figures are therefore equal to the last bit for any number of ranks.

    Raises:
        UsageError: no such split, no checkpoint, no task file, or fewer samples than ranks.
        TaskError: no such data, or ranks that read other rows.
        RecordError: the checkpoint is not whole.
    """
    header = record.header
    weights = read_weights(record, checkpoint)
    loaded = load_recorded_task(record, task)
    seed_everything(int(header.get("seed", 0)))  # as in training: a split may be drawn
    source = _data(loaded.task, split, record)
    if source.num_samples < world.num_ranks:
        raise FieldError(
            "nproc",
            world.num_ranks,
            f"{split}_data has {source.num_samples} samples",
            "Take fewer processes.",
        )
    _refuse_unlike_ranks(source, world)
    model = build_model(loaded.task)
    fit_weights(model, weights, f"run {record.id}")
    model.to(world.device).eval()
    door = LossDoor(loaded.task)
    micro_batch = int(header.get("batch", {}).get("micro_batch", 32))
    precision = Precision(str(header.get("precision", "fp32")), world.device)
    with torch.no_grad(), precision.autocast():
        tally, wait_s = _tally(model, door, source, world, micro_batch)
    figures = tally.pooled(world)
    for name, value in door.finish_metrics().items():
        figures[name] = Figure(value=value, standard_error=None, unit="none")
    notes = task_changes(record, loaded)
    if split == "val" and weights.name == "best" and recorded(record):
        notes += _against_training(record, figures)
    return {
        "split": split,
        "checkpoint": weights.name,
        "step": weights.step,
        "weights": str(weights),
        "num_samples": source.num_samples,
        "num_ranks": world.num_ranks,
        "wait_s": wait_s,
        "figures": {f"{split}_{name}": msgspec.to_builtins(figure) for name, figure in figures.items()},
        # of these data alone: the task's own fingerprint() is about the training data
        "data": data_fingerprint(Task(), source) if world.rank == 0 else {},
        "notes": notes,
    }


def _tally(
    model: torch.nn.Module, door: LossDoor, source: Source, world: World, micro_batch: int
) -> tuple[Tally, float]:
    size = source.num_samples
    rows_of_block = min(micro_batch, math.ceil(size / MIN_BLOCKS))
    num_blocks = math.ceil(size / rows_of_block)
    parts = part_borders(num_blocks, min(num_blocks, MAX_PARTS))
    tally = Tally(len(parts))
    first, stop = (len(parts) * (world.rank + more) // world.num_ranks for more in (0, 1))
    if first == stop:
        return tally, 0.0
    # the parts of a rank lie beside each other, so its blocks are the batches of one stretch of rows
    rows = range(parts[first][0] * rows_of_block, min(parts[stop - 1][1] * rows_of_block, size))
    with closing(EvalLoader(source, micro_batch=rows_of_block, rows=rows)) as loader:
        blocks = iter(loader)
        for part in range(first, stop):
            for _ in range(*parts[part]):
                loss = door.compute(model, to_device(next(blocks).data, world.device))
                pairs = {"loss": (loss.sum, loss.count)} | door.metrics(loss.output, loss.target)
                numbers = {name: (float(total), float(count)) for name, (total, count) in pairs.items()}
                tally.add(part, numbers, door.rows(loss) if size <= MAX_ROWS else None)
    return tally, loader.waits.wait_s


def _data(task: Task, split: str, record: RunRecord) -> Source:
    data = call(task, f"{split}_data")
    if data is None:
        name = type(task).__name__
        other = "val" if split == "test" else "test"
        raise TaskError(
            f"{name} of run {record.id} has no {split}_data. Write def {split}_data(self) that returns a data "
            f"set, or use --split {other}."
        )
    return Source(data, f"{split}_data")


def _refuse_unlike_ranks(source: Source, world: World) -> None:
    """Each rank judges a share of the same rows; where ranks read others, some would be judged twice, some never."""
    if world.num_ranks == 1:
        return
    mine = f"{source.num_samples} samples, first {leaves_digest(source.reader()(torch.tensor([0])))}"
    if world.sum([float(mine != world.from_rank_zero(mine))])[0]:
        raise TaskError(
            f"{source.role} differs from rank to rank, in its length or its first row. Leave out what splits it by "
            "rank, and seed what shuffles it: hemostat gives each rank its share."
        )


def _settings(record: RunRecord) -> dict[str, Any]:
    settings = record.header.get("settings")
    return settings if isinstance(settings, dict) else {}


def _against_training(record: RunRecord, figures: dict[str, Figure]) -> list[str]:
    """A sentence where the monitored figure is not the one that the run recorded for these weights."""
    monitor, before = record.summary.get("monitor", ""), record.summary.get("best")
    now = figures.get(str(monitor).removeprefix("val_"))
    if now is None or not isinstance(before, int | float) or math.isclose(before, now.value, rel_tol=1e-3):
        return []
    return [f"training recorded {monitor} {before:.4g} for these weights: the data or the code differ"]
