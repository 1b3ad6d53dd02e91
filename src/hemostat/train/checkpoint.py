"""Weights on disk: written to a temporary name, then renamed, so that a reader never sees half a file."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from hemostat.errors import RecordError


def save_weights(model: torch.nn.Module, path: Path) -> None:
    """Write a model's state dict; read it back with `torch.load(path, weights_only=True)`.

    Args:
        model: unwrapped module.
        path: target file; its folder is made.

    Raises:
        RecordError: the disk refused; nothing is left at `path` but what was there before.
    """
    temporary = path.with_suffix(f"{path.suffix}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            torch.save({name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        raise RecordError(
            f"cannot save weights to {path}: {error}. Free some space, or set train.save=false."
        ) from None
