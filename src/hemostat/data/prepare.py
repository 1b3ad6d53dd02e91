"""Writes a decoded or tokenised copy of a data set, once: `.npy` files and the recipe of their making."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from hemostat.data.content import is_table, tensor_bytes
from hemostat.data.fetch import Source
from hemostat.data.loader import EvalLoader
from hemostat.data.prepared import DIGESTS, FORMAT, RECIPE
from hemostat.data.reading import READING
from hemostat.disk import new_folder
from hemostat.errors import RecordError, TaskError
from hemostat.track import fingerprint
from hemostat.units import format_bytes

_TOGETHER: Final = 64
_NUM_TWICE: Final = 16
_WHOLE: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def prepare_copy(
    source: Source,
    folder: Path,
    *,
    parts: list[Any] | None = None,
    about: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Read each sample once and write it, whole or not at all.

    Args:
        source: the data.
        folder: it must not exist, or be empty.
        parts: what identifies the data; None takes it from the data set.
        about: what else prepared.json shall say.
        progress: told how many samples are written.

    Returns:
        What prepared.json holds.

    Raises:
        FieldError: the folder is in use.
        TaskError: the samples are random, are no tensors, or do not fit together.
        RecordError: the disk is full, or the folder cannot be written.
    """
    rows = _Rows(source)  # what the user's own code raises is not said of the folder
    with new_folder(folder, "out") as beside:
        _check_room(rows, beside)
        given = parts if parts is not None else source.content()
        recipe = {
            "format": FORMAT,
            "dataset": type(source.dataset).__name__,
            "num_samples": source.num_samples,
            "source": {"tier": "declared"} if given is None else _identity(list(given), beside / DIGESTS),
            **(about or {}),
            "tree": rows.tree,
            "leaves": _write(rows, beside, progress or (lambda done: None)),
        }
        (beside / RECIPE).write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
    return recipe


def _identity(parts: list[Any], cache: Path) -> dict[str, Any]:
    """The fingerprint of the source, and of its files alone, so that they can be looked at again."""
    named = [part if isinstance(part, tuple) else (None, part) for part in parts]
    paths = [
        (name, str(Path(path).absolute())) for name, path in named if isinstance(path, str | os.PathLike)
    ]
    files = fingerprint([(name, path) if name else path for name, path in paths], "sample", cache=cache).files
    return {**fingerprint(parts, "full", cache=cache).summary(), "paths": paths, "files": files}


def _check_room(rows: _Rows, folder: Path) -> None:
    needed = len(rows) * sum(leaf.numel() * leaf.element_size() for leaf in rows.first if leaf.dim() != 1)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise RecordError(
            f"out={str(folder.parent)!r}: the copy needs {format_bytes(needed)}, {format_bytes(free)} are free. "
            f"Free some space, or choose another disk."
        )


class _Rows:
    """Samples as flat lists of tensors, each checked against the first one.

    Attributes:
        tree: of a sample, for `hemostat.data.prepared.planted`.
        first: leaves of the first sample.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._dataset = source.dataset
        if is_table(self._dataset) and self._dataset.format["type"] is None:
            self._dataset = self._dataset.with_format("torch")
        self.tree: Any = None
        self.first: list[Tensor] = []
        self._refuse_random()

    def __len__(self) -> int:
        return self._source.num_samples

    def __getitem__(self, index: int) -> list[Tensor]:
        return self.leaves(self._dataset[index], index)

    def leaves(self, sample: Any, index: int) -> list[Tensor]:
        found: list[Tensor] = []
        tree = _taken(sample, found, self._source.role, f"sample {index}")
        if not self.first:
            self.tree, self.first = tree, found
        if tree != self.tree:
            raise TaskError(
                f"{self._source.role}: sample {index} is another tree than sample 0: {_shown(tree)} and "
                f"{_shown(self.tree)}. Give all samples one form."
            )
        for leaf, model in zip(found, self.first, strict=True):
            if leaf.dtype != model.dtype:
                raise TaskError(
                    f"{self._source.role}: sample {index} holds {leaf.dtype}, sample 0 {model.dtype}. "
                    f"Convert them to one."
                )
            if leaf.shape != model.shape and not leaf.dim() == model.dim() == 1:
                raise TaskError(
                    f"{self._source.role}: sample {index} has a part of shape {tuple(leaf.shape)}, sample 0 "
                    f"{tuple(model.shape)}. Only rows (one dimension) may differ in length: resize or pad the others."
                )
        return found

    def _refuse_random(self) -> None:
        """Some samples are read twice, as in two epochs."""
        kept, num = READING.epoch, len(self)
        some = sorted({k * (num - 1) // max(1, _NUM_TWICE - 1) for k in range(_NUM_TWICE)})
        try:
            if self._source.stream:
                streams = (iter(self._source.stream) for _ in range(2))
                pairs = zip(*(islice(stream, _NUM_TWICE) for stream in streams), strict=True)
                both = [(index, *pair) for index, pair in enumerate(pairs)]
            else:
                both = [(index, self._read(index, 0), self._read(index, 1)) for index in some]
        finally:
            READING.epoch = kept
        for index, *pair in both:
            first, second = (self.leaves(sample, index) for sample in pair)
            if any(
                tensor_bytes(one) != tensor_bytes(other) for one, other in zip(first, second, strict=True)
            ):
                raise TaskError(
                    f"{self._source.role}: sample {index} differs between two reads: its augmentation is random, and "
                    f"a copy would freeze one draw for all epochs. Prepare the data without it, and augment what is "
                    f"read from the copy."
                )

    def _read(self, index: int, epoch: int) -> Any:
        READING.epoch = epoch
        return self._dataset[index]

    def blocks(self) -> Iterator[list[tuple[Tensor, Tensor]]]:
        """For each leaf, the values of some samples end to end, and how many rows each sample has of them."""
        if self._source.stream:
            items = islice(iter(self._source.stream), len(self))
            rows = (self.leaves(sample, index) for index, sample in enumerate(items))
            while block := list(islice(rows, _TOGETHER)):
                yield _packed(block)
            return
        # a loader, for its choice of threads or processes
        read = Source(DataLoader(self, batch_size=_TOGETHER, collate_fn=_packed), self._source.role)  # type: ignore[arg-type]
        loader = EvalLoader(read, micro_batch=_TOGETHER)
        try:
            for micro in loader:
                yield micro.data
        finally:
            loader.close()


def _packed(samples: list[list[Tensor]]) -> list[tuple[Tensor, Tensor]]:
    return [
        (
            torch.cat([leaf.reshape(-1) for leaf in leaves]),
            torch.tensor([len(leaf) if leaf.dim() else 1 for leaf in leaves]),
        )
        for leaves in zip(*samples, strict=True)
    ]


def _taken(sample: Any, leaves: list[Tensor], role: str, where: str) -> Any:
    """Append the tensors of a sample to `leaves`; returns its tree."""
    if isinstance(sample, dict):
        return {str(name): _taken(part, leaves, role, f"{where}[{name!r}]") for name, part in sample.items()}
    numbers = isinstance(sample, list) and sample and all(type(item) in (int, float) for item in sample)
    if isinstance(sample, list | tuple) and not numbers:
        return [_taken(part, leaves, role, f"{where}[{k}]") for k, part in enumerate(sample)]
    if isinstance(sample, Tensor):
        leaves.append(sample.detach().cpu())
    elif isinstance(sample, np.ndarray | np.generic) and not sample.dtype.hasobject:
        leaves.append(torch.as_tensor(np.asarray(sample)))
    elif numbers or isinstance(sample, bool | int | float):
        leaves.append(torch.as_tensor(np.asarray(sample)))  # float64, as torch's collation has it
    else:
        raise TaskError(
            f"{role}: {where} is a {type(sample).__name__}: only tensors, arrays and numbers can be mapped into "
            f"memory. Encode it as numbers, or leave it out."
        )
    return None


def _shown(tree: Any) -> str:
    if tree is None:
        return "a tensor"
    inside = ", ".join(map(repr, tree)) if isinstance(tree, dict) else f"{len(tree)} parts"
    return f"{{{inside}}}" if isinstance(tree, dict) else f"({inside})"


def _write(rows: _Rows, folder: Path, progress: Callable[[int], None]) -> list[dict[str, Any]]:
    columns = [_Column(folder, number, leaf) for number, leaf in enumerate(rows.first)]
    done = 0
    try:
        for block in rows.blocks():
            for column, (values, lengths) in zip(columns, block, strict=True):
                column.add(values, lengths)
            done += len(block[0][1]) if block else 0
            progress(done)
        if columns and done < len(rows):
            raise TaskError(f"the data ended before sample {done} of {len(rows)}. Say how long they are.")
        return [column.finish() for column in columns]
    finally:
        for column in columns:
            column.file.close()


class _Column:
    """One leaf of all samples, in one `.npy` file; rows of unequal lengths get a second one with their borders."""

    def __init__(self, folder: Path, number: int, first: Tensor) -> None:
        self._folder = folder
        self._name = str(number)
        self._first = first
        self._lengths: list[Tensor] = []
        self._values = _viewed(first.reshape(-1))
        self.file = (folder / f"{number}.npy").open("wb")
        self.file.write(self._head((0, *first.shape)))

    def add(self, values: Tensor, lengths: Tensor) -> None:
        # written, not mapped: a full disk is an error here, and a killed process there
        self.file.write(tensor_bytes(values))
        self._lengths.append(lengths.clone())

    def finish(self) -> dict[str, Any]:
        lengths = torch.cat(self._lengths)
        shape: tuple[int, ...] = (len(lengths), *self._first.shape)
        offsets = None
        if self._first.dim() == 1 and bool((lengths != lengths[0]).any()):
            offsets = f"{self._name}.offsets.npy"
            borders = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
            np.save(self._folder / offsets, borders.numpy())
            shape = (int(borders[-1]),)
        self.file.seek(0)
        self.file.write(self._head(shape))
        self.file.flush()
        os.fsync(self.file.fileno())
        return {
            "file": f"{self._name}.npy",
            "offsets": offsets,
            "dtype": str(self._first.dtype).removeprefix("torch."),
            "shape": list(shape),
        }

    def _head(self, shape: tuple[int, ...]) -> bytes:
        """As long for any number of samples: numpy leaves room for it."""
        head = io.BytesIO()
        descr = np.lib.format.dtype_to_descr(self._values.dtype)
        np.lib.format.write_array_header_1_0(head, {"descr": descr, "fortran_order": False, "shape": shape})
        return head.getvalue()


def _viewed(tensor: Tensor) -> np.ndarray[Any, Any]:
    """As numpy; what it does not know, such as bfloat16, as whole numbers of that size."""
    with suppress(TypeError):
        return tensor.numpy()
    return tensor.contiguous().view(_WHOLE[tensor.element_size()]).numpy()
