"""Weights of a recorded run: which file, whether it is whole, and whether it fits the model."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from hemostat.errors import RecordError, TaskError, UnknownNameError, UsageError
from hemostat.track import Checkpoints, RunRecord
from hemostat.train.recorded_task import is_own_loop
from hemostat.train.tensor_files import MODEL, read_tensors, tensor_shapes

CHECKPOINTS = ("best", "last")


class Weights(NamedTuple):
    """A state dict that was read back.

    Attributes:
        state: on the CPU.
        name: "best" or "last".
        step: where it was saved.
    """

    state: dict[str, Tensor]
    name: str
    step: int


def check_checkpoint(name: str) -> None:
    """Raise unless a run can have weights of this name.

    Raises:
        UnknownNameError: it cannot.
    """
    if name not in CHECKPOINTS:
        raise UnknownNameError("checkpoint", name, CHECKPOINTS)


def read_weights(record: RunRecord, name: str | None = None) -> Weights:
    """Read the weights of a run; nothing is unpickled but tensors.

    Args:
        record: the run.
        name: "best" or "last"; None takes the best, or the last of a run that was never judged.

    Raises:
        UsageError: there are no such weights.
        RecordError: the file is not whole.
    """
    if name is not None:
        check_checkpoint(name)
    checkpoints = Checkpoints(record.path)
    best, published = checkpoints.best(), checkpoints.published()
    chosen = name or ("best" if best or record.summary.get("best") is not None else "last")
    path = best if chosen == "best" else (published[-1] if published else None)
    if path is None:
        raise _missing(record, checkpoints, chosen)
    manifest, trouble = checkpoints.manifest(path), checkpoints.trouble(path)
    if trouble:
        raise RecordError(f"{path} is not whole: {trouble}. Train again, or choose another checkpoint.")
    shapes = {key: shape for key, shape in tensor_shapes(path).items() if key.startswith(MODEL)}
    tensors = {key: torch.empty(shape.size, dtype=shape.dtype) for key, shape in shapes.items()}
    read_tensors(tensors, path)
    return Weights({key.removeprefix(MODEL): value for key, value in tensors.items()}, chosen, manifest.step)


def _missing(record: RunRecord, checkpoints: Checkpoints, name: str) -> Exception:
    if checkpoints.published():
        return UsageError(
            f"run {record.id} has no best checkpoint (the run was never judged). Write --checkpoint last."
        )
    torn = sorted(checkpoints.root.glob(".step-*.tmp"))
    if torn:
        return RecordError(
            f"run {record.id}: {torn[-1].name} was being written when the run ended and is half a checkpoint; there "
            f"is no {name} one. Train again."
        )
    state = record.state
    if is_own_loop(record):
        return UsageError(
            f"run {record.id} ({state}) came from a loop of your own, which saved no weights. Train again without "
            "TrainSettings(save=False)."
        )
    fix = (
        "It is still running: wait for its first evaluation."
        if state == "running"
        else "Train again without train.save=false, to its first evaluation."
    )
    return UsageError(f"run {record.id} ({state}) has no checkpoints. {fix}")


def fit_weights(model: nn.Module, weights: Weights, whose: str) -> None:
    """Load weights into a model.

    Args:
        model: freshly built by the task.
        weights: from `read_weights`.
        whose: the run, for messages.

    Raises:
        TaskError: names or shapes differ.
    """
    try:
        model.load_state_dict(weights.state)
    except RuntimeError as error:
        first = next((line.strip() for line in str(error).splitlines()[1:] if line.strip()), str(error))
        raise TaskError(
            f"the weights of {whose} do not fit the task's model: {first[:300]} "
            f"Use the task file and the values that the run was trained with."
        ) from None
