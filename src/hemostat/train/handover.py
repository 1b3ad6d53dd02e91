"""`load`: a run or an exported folder becomes a model that is ready to predict."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from hemostat.errors import FieldError, MissingExtraError, RecordError, TaskError, UsageError
from hemostat.task import build_model, load_task
from hemostat.track import load_run
from hemostat.train.archive import open_archive
from hemostat.train.export import MANIFEST
from hemostat.train.recorded_task import load_recorded_task
from hemostat.train.weights import checkpoint_name, fit_weights, read_weights, weights_text

ROOT = Path(".hemostat") / "runs"


def load(
    source: str | Path,
    *,
    checkpoint: str | int | None = None,
    task: str | None = None,
    model: nn.Module | None = None,
) -> nn.Module:
    """The model of a run, or of a folder that `hemostat export` wrote, on the CPU and in evaluation mode.

    A folder needs no training code where it holds a Hugging Face model or an archive. Nothing is unpickled but
    tensors, and the code of a folder is never run unless you name it in `task`.

    Args:
        source: a run id, a unique part of one, "last", a run directory, or an exported folder.
        checkpoint: of a run: "best", "last" or a step; None takes the best, or the last of a run never judged.
        task: "file.py:Class", where the recorded one has moved, or a folder needs one.
        model: put the weights into this module and return it; no task is asked for then.

    Raises:
        UsageError: no such run, no checkpoint, or a task file is needed.
        RecordError: a file is not whole.
        TaskError: the weights do not fit the model.
    """
    _check_types(source, task, model)
    if task is not None and model is not None:
        raise FieldError("task", task, "is given beside model", "Leave one of them out.")
    path = Path(source)
    if (path / MANIFEST).is_file():
        return _from_folder(path, checkpoint, task, model)
    if (path / "run.json").is_file():
        record = load_run(path.resolve().parent, path.resolve().name)
    elif path.is_dir():
        fix = "Give a folder that `hemostat export` wrote, or a run."
        raise FieldError("load", str(source), f"has neither {MANIFEST} nor run.json", fix)
    else:
        record = load_run(ROOT, str(source))
    weights = read_weights(record, checkpoint)
    if model is None:
        model = build_model(load_recorded_task(record, task).task)
    fit_weights(model, weights, f"run {record.id}")
    return model.eval()


def _check_types(source: Any, task: Any, model: Any) -> None:
    if not isinstance(source, str | Path):
        fix = 'Write hemostat.load("last"), a run id, or the path of a folder.'
        raise FieldError("load", source, "is no run and no folder", fix)
    if task is not None and not isinstance(task, str):
        raise FieldError("task", task, "is no task", 'Write task="FILE.py:CLASS", or leave it out.')
    if model is not None and not isinstance(model, nn.Module):
        fix = "Give a module that you have built, or leave it out."
        raise FieldError("model", model, "is no torch.nn.Module", fix)


def _from_folder(
    folder: Path, checkpoint: str | int | None, task: str | None, model: nn.Module | None
) -> nn.Module:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        kind, spec = manifest["kind"], manifest["task"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{folder / MANIFEST} cannot be read: {error}. Export the run again.") from None
    names = (manifest.get("checkpoint"), checkpoint_name(manifest.get("step")))
    if checkpoint is not None and checkpoint_name(checkpoint) not in names:
        held = weights_text(str(names[0]), manifest.get("step", 0))
        raise UsageError(f"{folder} holds the {held} only. Load the run instead.")
    if task is not None:
        model = build_model(load_task(task, manifest.get("values", {})).task)
    if model is not None:
        return _filled(model, folder, task or type(model).__name__)
    if kind == "huggingface":
        return _of_transformers(folder, str(manifest["class"]))
    if kind == "archive":
        return open_archive(folder / "model.pt2")
    raise TaskError(
        f"{folder} needs its task file: {manifest.get('why', '')} Read that file, and if you trust it write "
        f'hemostat.load("{folder}", task="FILE.py:{str(spec).rpartition(":")[2]}").'
    )


def _filled(model: nn.Module, folder: Path, name: str) -> nn.Module:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_model
    except ImportError:
        raise MissingExtraError("safetensors", extra="export", purpose="an exported folder") from None
    path = folder / "model.safetensors"
    try:
        load_model(model, path)
    except (OSError, SafetensorError) as error:
        raise RecordError(f"{path} is not whole: {error}. Export the run again.") from None
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()[:300]
        raise TaskError(f"the weights in {folder} do not fit {name}: {reason}") from None
    return model.eval()


def _of_transformers(folder: Path, name: str) -> nn.Module:
    try:
        transformers = import_module("transformers")  # not for type checkers: it is large
    except ImportError:
        raise UsageError(
            f"{folder} holds a Hugging Face model. Install it: pip install transformers"
        ) from None
    kind: Any = getattr(transformers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise UsageError(
            f"{folder}: this transformers has no model class {name!r}. Install the one it was made with."
        )
    pretrained: Any = kind
    try:
        model: nn.Module = pretrained.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise RecordError(f"{folder} cannot be read: {str(error).splitlines()[0]}") from None
    return model.eval()
