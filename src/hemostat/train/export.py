"""A recorded run as a folder to hand over: safetensors, a card, and the model itself where that is possible."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hemostat.data import Source
from hemostat.disk import new_folder
from hemostat.errors import MissingExtraError, TaskError
from hemostat.task import LoadedTask, build_model, call
from hemostat.track import RunRecord
from hemostat.train.archive import make_archive
from hemostat.train.card import card
from hemostat.train.process import seed_everything
from hemostat.train.recorded_task import load_recorded_task, recorded, task_changes
from hemostat.train.weights import fit_weights, read_weights

MANIFEST = "hemostat.json"
FORMAT = 1


def export_run(
    record: RunRecord, folder: Path, *, checkpoint: str | int | None = None, task: str | None = None
) -> dict[str, Any]:
    """Write a run's model into a new folder, whole or not at all.

    Args:
        record: the run.
        folder: it must not exist, or be empty.
        checkpoint: see `read_weights`.
        task: see `load_recorded_task`.

    Returns:
        What hemostat.json holds, "weights" in words, and "notes".

    Raises:
        UsageError: no checkpoint, no task file, a folder that is in use, or safetensors is not installed.
        RecordError: the checkpoint is not whole, or the folder cannot be written.
    """
    try:
        import safetensors.torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("safetensors", extra="export", purpose="an export") from None
    weights = read_weights(record, checkpoint)
    loaded = load_recorded_task(record, task)
    model = build_model(loaded.task).eval()
    fit_weights(model, weights, f"run {record.id}")
    with new_folder(folder, "dir") as beside:
        manifest = {
            "format": FORMAT,
            "run": record.id,
            "checkpoint": weights.name,
            "step": weights.step,
            "task": f"{loaded.path.name}:{type(loaded.task).__name__}",
            "values": recorded(record).get("values", {}),
            "torch": str(torch.__version__),
            **_write_model(model, loaded, beside, int(record.header.get("seed", 0))),
        }
        (beside / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        (beside / "README.md").write_text(card(record, weights, manifest), encoding="utf-8")
    return {**manifest, "weights": str(weights), "notes": task_changes(record, loaded)}


@contextmanager
def _safetensors() -> Iterator[None]:
    """Its own error hides the system's number in a sentence: "I/O error: File too large (os error 27)"."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        raise OSError(int(found[1]) if found else None, str(error)) from error


def _write_model(model: nn.Module, loaded: LoadedTask, folder: Path, seed: int) -> dict[str, Any]:
    """The files of the model; returns how it can be loaded."""
    kind = type(model)
    save_pretrained: Any = getattr(model, "save_pretrained", None)
    if callable(save_pretrained):
        with _safetensors():
            save_pretrained(folder)
        if _is_of_transformers(kind):
            return {"kind": "huggingface", "class": kind.__name__}
        if not (folder / "model.safetensors").exists():
            _save_weights(model, folder)
        _keep_task_file(loaded, folder)
        return {"kind": "task", "why": f"{kind.__name__} is a class of its own, not one of transformers."}
    _save_weights(model, folder)
    try:
        example, other = _examples(loaded, seed)
        make_archive(model, example, other, folder / "model.pt2")
    except TaskError as error:
        _keep_task_file(loaded, folder)
        return {"kind": "task", "why": str(error)}
    return {"kind": "archive"}


def _save_weights(model: nn.Module, folder: Path) -> None:
    from safetensors.torch import save_model

    with _safetensors():
        save_model(model, str(folder / "model.safetensors"))


def _is_of_transformers(kind: type) -> bool:
    if not kind.__module__.startswith("transformers."):
        return False
    return getattr(import_module("transformers"), kind.__name__, None) is kind


def _keep_task_file(loaded: LoadedTask, folder: Path) -> None:
    shutil.copyfile(loaded.path, folder / loaded.path.name)


def _examples(loaded: LoadedTask, seed: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Inputs of two rows and of three, from the validation data if there are any."""
    seed_everything(seed)
    task = loaded.task
    data, role = call(task, "val_data"), "val_data"
    if data is None:
        data, role = call(task, "train_data"), "train_data"
    source = Source(data, role)
    found = []
    for num in (2, 3):
        args, kwargs, _ = call(task, "split", source.fetch(torch.arange(num) % source.num_samples))
        found.append((args, kwargs))
    return found
