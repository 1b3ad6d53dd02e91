"""A model as a `torch.export` archive: made from an example batch, checked, and opened without unpickling."""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from hemostat.blame import said
from hemostat.errors import RecordError, TaskError, UsageError

_ENTRY = re.compile(
    r"models/model\.json|data/sample_inputs/model\.pt|archive_format|archive_version|byteorder|\.data/\w+"
    r"|data/weights/(weight_\d+|model_weights_config\.json)|data/constants/(tensor_\d+|model_constants_config\.json)"
)
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims)\.\w+\.\w+|_operator\.(getitem|add|sub|mul|neg|floordiv|mod|eq|ne|lt|le|gt|ge)"
)
_EXPRESSION = re.compile(
    r"(?:Symbol\('[a-z]\d+'(?:, [a-z]+=(?:True|False))*\)|Integer\(-?\d+\)"
    r"|(?:Add|Mul|Pow|Max|Min|Mod|FloorDiv)\(|[), ])*"
)
_INSTEAD = 'Load the weights with a task file you trust: hemostat.load(DIR, task="FILE.py:CLASS").'
Call = tuple[tuple[Any, ...], dict[str, Any]]


def make_archive(model: nn.Module, example: Call, other: Call, path: Path) -> None:
    """Trace a model in evaluation mode, write it, read it back and compare what both compute.

    Every dim is left free where the model allows it.

    Args:
        model: on the CPU, in evaluation mode.
        example: positional and named inputs of two rows.
        other: the same of three rows; the archive must agree with the model on both.
        path: the file.

    Raises:
        TaskError: torch cannot trace the model, or the archive computes something else.
        OSError: the disk refused.
    """
    shapes: Any = torch.export.ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf in _pytree.tree_leaves(example):
        if isinstance(leaf, Tensor):
            shapes[leaf] = tuple(torch.export.Dim.AUTO for _ in leaf.shape)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about itself
            program = torch.export.export(model, *example, dynamic_shapes=shapes, strict=False)
            program.example_inputs = None  # rows of the user's data are not handed on
            made = io.BytesIO()  # on a full disk torch's own writer ends the process
            torch.export.save(program, made)
    except Exception as error:
        raise _cannot(error) from error
    path.write_bytes(made.getbuffer())
    try:
        with torch.no_grad():
            again = open_archive(path)
            for args, kwargs in (example, other):
                _compare(model(*args, **kwargs), again(*args, **kwargs))
    except Exception as error:
        path.unlink(missing_ok=True)
        raise _cannot(error) from error


def _cannot(error: Exception) -> TaskError:
    return TaskError(f"torch.export cannot take this model: {said(error)[:200]}")


def _compare(wanted: Any, got: Any) -> None:
    pairs = zip(_pytree.tree_leaves(wanted), _pytree.tree_leaves(got), strict=True)
    for one, two in pairs:
        if isinstance(one, Tensor):
            torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
        elif one != two:
            raise TaskError(f"the archive gives {two!r} where the model gives {one!r}")


def open_archive(path: Path) -> nn.Module:
    """The model in an archive, as it was in evaluation mode; it has no other.

    `torch.export.load` would unpickle what an archive asks it to, evaluate its expressions as Python, and let
    its graph call any function of torch. So the archive is read first: it must hold nothing but raw tensors, a
    graph of plain operators, and sizes.

    Raises:
        RecordError: the file is not whole, or holds something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            doubt = next(_doubts(archive), None)
    except Exception as error:  # whoever made the file chose what is in it
        raise RecordError(f"{path} is not whole: {said(error)}. Export the run again.") from error
    if doubt is not None:
        raise RecordError(f"{path} is not opened: it {doubt}. {_INSTEAD}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _in_evaluation(torch.export.load(path).module())
    except Exception as error:
        raise RecordError(
            f"{path} cannot be opened by torch {torch.__version__}: {said(error)[:200]}. hemostat.json says which "
            f"torch made it. {_INSTEAD}"
        ) from error


def _in_evaluation(model: nn.Module) -> nn.Module:
    """Torch's own `eval()` and `train()` of such a model raise, and its parts say that they train."""
    for part in model.modules():
        part.training = False
    model.eval = MethodType(lambda self: self, model)  # type: ignore[method-assign]
    model.train = MethodType(_stay, model)  # type: ignore[method-assign]
    return model


def _stay(self: nn.Module, mode: bool = True) -> nn.Module:
    if mode:
        raise UsageError(
            "an archive holds the model in evaluation mode only. To train it, load its weights with the task file."
        )
    return self


def _doubts(archive: zipfile.ZipFile) -> Iterator[str]:
    names = archive.namelist()
    root = names[0].partition("/")[0] if names else ""
    inner = [name.removeprefix(f"{root}/") for name in names]
    if len(set(names)) < len(names) or not all(name.startswith(f"{root}/") for name in names):
        yield "has two files of one name, or files beside its folder"
    for name in inner:
        if not _ENTRY.fullmatch(name):
            yield f"holds {name!r}, which no archive of hemostat has"
    if archive.testzip() is not None:
        yield "is damaged: a checksum is wrong"
    for name in ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json"):
        for payload in json.loads(archive.read(f"{root}/{name}"))["config"].values():
            if payload["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", payload["path_name"]):
                yield "holds a pickled object"
    if archive.read(f"{root}/data/sample_inputs/model.pt"):
        yield "holds example inputs"
    for key, value in _fields(json.loads(archive.read(f"{root}/models/model.json"))):
        if key == "target" and isinstance(value, str) and not _OPERATOR.fullmatch(value):
            yield f"calls {value!r}"
        if key == "expr_str" and not (isinstance(value, str) and _EXPRESSION.fullmatch(value)):
            yield f"has a size {value!r}"


def _fields(tree: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key, value
            yield from _fields(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _fields(value)
