"""Weights of a recorded run: which file, whether it is whole, and whether it fits the model."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hemostat.errors import FieldError, RecordError, TaskError, UnknownNameError, UsageError
from hemostat.track import Checkpoints, RunRecord
from hemostat.train.checkpoint import MODEL
from hemostat.train.recorded_task import is_own_loop

CHECKPOINTS = ("best", "last")
_STEP = "step-"


class Weights(NamedTuple):
    """A state dict that was read back.

    Attributes:
        state: on the CPU.
        name: "best", "last" or "step-40", as it was asked for.
        step: where it was saved.
    """

    state: dict[str, Tensor]
    name: str
    step: int

    def __str__(self) -> str:
        """For people: "best weights of step 40"."""
        return weights_text(self.name, self.step)


def weights_text(name: str, step: int) -> str:
    """What people read of weights.

    Examples:
        >>> weights_text("best", 40), weights_text("step-40", 40)
        ('best weights of step 40', 'weights of step 40')
    """
    return " ".join(
        [*([] if name.startswith(_STEP) else [name]), "weights", *([f"of step {step}"] if step else [])]
    )


def check_checkpoint(name: str) -> None:
    """Raise unless weights can be saved under this name.

    Raises:
        UnknownNameError: it cannot.
    """
    if name not in CHECKPOINTS:
        raise UnknownNameError("checkpoint", name, CHECKPOINTS)


def read_weights(record: RunRecord, name: str | int | None = None) -> Weights:
    """Read the weights of a run; nothing is unpickled but tensors.

    Args:
        record: the run.
        name: "best", "last", or one that is there still: "step-40" or 40. None takes the best, or the last of a run
            that was never judged.

    Raises:
        UsageError: there are no such weights.
        RecordError: the file is not whole.
    """
    from hemostat.train.tensor_files import read_tensors, tensor_shapes

    checkpoints = Checkpoints(record.path)
    chosen, path = _chosen(record, checkpoints, checkpoint_name(name))
    trouble = checkpoints.trouble(path)
    if trouble:
        others = ", ".join(other for other in _steps(checkpoints) if other != _short(path))
        fix = f"Choose another checkpoint: {others}." if others else "Train again."
        raise RecordError(f"{path} is not whole: {trouble}. {fix}")
    manifest = checkpoints.manifest(path)
    shapes = {key: shape for key, shape in tensor_shapes(path).items() if key.startswith(MODEL)}
    tensors = {key: torch.empty(shape.size, dtype=shape.dtype) for key, shape in shapes.items()}
    read_tensors(tensors, path)
    return Weights({key.removeprefix(MODEL): value for key, value in tensors.items()}, chosen, manifest.step)


def checkpoint_name(given: str | int | None) -> str | None:
    """The one way to write a checkpoint's name.

    Raises:
        FieldError: neither a text nor a step.

    Examples:
        >>> checkpoint_name(40), checkpoint_name("step-000000040"), checkpoint_name("best")
        ('step-40', 'step-40', 'best')
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise FieldError(
            "checkpoint", given, "is no checkpoint", 'Write "best", "last", or a step such as 40.'
        )
    text = str(given)
    step = text.removeprefix(_STEP)
    return f"{_STEP}{int(step)}" if step.isascii() and step.isdecimal() else text


def _chosen(record: RunRecord, checkpoints: Checkpoints, name: str | None) -> tuple[str, Path]:
    published = checkpoints.published()
    if not published:
        raise _missing(record, checkpoints, name or "best")
    if name == "last":
        return name, published[-1]
    if name not in (None, "best"):
        path = next((path for path in published if _short(path) == name), None)
        if path is None:
            raise UnknownNameError("checkpoint", str(name), [*CHECKPOINTS, *_steps(checkpoints)])
        return str(name), path
    best_step = record.summary.get("best_step") if record.summary.get("best") is not None else None
    recorded = f"{_STEP}{best_step}"
    instead = f"Write --checkpoint {recorded if recorded in _steps(checkpoints) else 'last'}."
    try:
        best = checkpoints.best()
    except RecordError as error:
        told = f" run.json has step {best_step} as the best." if best_step is not None else ""
        raise RecordError(f"run {record.id}: {error}{told} {instead}") from None
    if best is not None:
        return "best", best
    if name is None and best_step is None:
        return "last", published[-1]
    why = "the run was never judged" if best_step is None else f"that of step {best_step} is not there"
    raise UsageError(f"run {record.id} has no best checkpoint ({why}). {instead}")


def _short(path: Path) -> str:
    """step-000000040 as people write it."""
    return checkpoint_name(path.name) or ""


def _steps(checkpoints: Checkpoints) -> list[str]:
    return [_short(path) for path in checkpoints.published()]


def _missing(record: RunRecord, checkpoints: Checkpoints, name: str) -> Exception:
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
