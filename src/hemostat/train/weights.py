"""Weights of a recorded run: which file, whether it is whole, and whether it fits the model."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hemostat.errors import RecordError, TaskError, UnknownNameError, UsageError
from hemostat.track import RunRecord
from hemostat.train.recorded_task import is_own_loop

CHECKPOINTS = ("best", "last")


class Weights(NamedTuple):
    """A state dict that was read back.

    Attributes:
        state: on the CPU.
        name: "best" or "last".
        step: where it was saved, as the run's summary says; None where it does not.
    """

    state: dict[str, Tensor]
    name: str
    step: int | None


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
    folder = record.path / "checkpoints"
    chosen = name or ("best" if (folder / "best.pt").exists() else _without_best(record, folder))
    path = folder / f"{chosen}.pt"
    if not path.exists():
        raise _missing(record, folder, chosen)
    state = _read(path)
    step = record.summary.get("best_step" if chosen == "best" else "steps")
    return Weights(state, chosen, step if isinstance(step, int) else None)


def _without_best(record: RunRecord, folder: Path) -> str:
    judged = record.summary.get("best") is not None or any(folder.glob("best.pt.*tmp"))
    return "best" if judged else "last"


def _missing(record: RunRecord, folder: Path, name: str) -> Exception:
    torn = sorted(folder.glob(f"{name}.pt.*tmp"))
    if torn:
        return RecordError(
            f"run {record.id}: checkpoints/{name}.pt was being written when the run ended; "
            f"{torn[0].name} is half of it. Train again, or choose another checkpoint."
        )
    there = [other for other in CHECKPOINTS if (folder / f"{other}.pt").exists()]
    if there:
        why = " (the run was never judged)" if name == "best" else " (the run did not end by itself)"
        return UsageError(f"run {record.id} has no {name} checkpoint{why}. Write --checkpoint {there[0]}.")
    state = record.state
    if is_own_loop(record):
        return UsageError(
            f"run {record.id} ({state}) came from a loop of your own, which saved no weights. Train again with "
            f'session.save() at the end of the loop, or session.save("best") where it judges.'
        )
    fix = (
        "It is still running: wait for its first evaluation."
        if state == "running"
        else "Train again without train.save=false, to its first evaluation."
    )
    return UsageError(f"run {record.id} ({state}) has no checkpoints. {fix}")


def _read(path: Path) -> dict[str, Tensor]:
    repair = "Train again, or choose another checkpoint."
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()  # torch.load does not look at the checksums
        if broken is not None:
            raise RecordError(f"{path} is damaged: the checksum of {broken} is wrong. {repair}")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except zipfile.BadZipFile:
        raise RecordError(f"{path} is not whole: its end is missing. {repair}") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}. {repair}") from None
    except pickle.UnpicklingError:
        raise RecordError(f"{path} cannot be read as weights: it holds more than tensors. {repair}") from None
    except (RuntimeError, EOFError, ValueError) as error:
        raise RecordError(
            f"{path} cannot be read as weights: {str(error).splitlines()[0]}. {repair}"
        ) from None
    plain = isinstance(state, dict) and all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in state.items()
    )
    if not plain:
        raise RecordError(f"{path} holds something else than named tensors. Is it a checkpoint of hemostat?")
    return dict(state)


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
