"""What identifies the samples of a data set: its files, or its bytes in memory in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

PIECE_BYTES: Final = 16 << 20  # also the largest copy that is ever made
_LIST_ROWS: Final = 256
_TABLE_ROWS: Final = 10_000
_PLAIN: Final = (str, int, float, bool, bytes, type(None))


def content(dataset: Any) -> Iterator[Any] | None:
    """Parts for `hemostat.track.fingerprint`: files, or (name, function that returns bytes).

    Nothing is read before a part is asked for its bytes. Known are `TensorDataset`, lists and tuples of samples,
    Hugging Face data sets, `Subset`s of them, and whatever has a method `fingerprint()` that returns paths or
    bytes; of others None.
    """
    if isinstance(dataset, Subset):
        inner = content(dataset.dataset)
        indices = torch.as_tensor(dataset.indices, dtype=torch.int64)
        return None if inner is None else _chained(_pieces("indices", indices), inner)
    own = getattr(dataset, "fingerprint", None)
    if callable(own):
        given = own()
        return iter([given] if isinstance(given, str | Path | bytes) else given)
    if isinstance(dataset, TensorDataset):
        named = (_pieces(f"tensor {k}", tensor) for k, tensor in enumerate(dataset.tensors))
        return (piece for pieces in named for piece in pieces)
    if type(dataset) in (list, tuple) and all(_is_plain(sample) for sample in dataset[:1]):
        return _rows(dataset)
    if is_table(dataset):
        return _table(dataset)
    return None


def is_table(dataset: Any) -> bool:
    """A Hugging Face data set, which gives the columns of many rows at once."""
    return type(dataset).__module__.partition(".")[0] == "datasets" and hasattr(dataset, "with_format")


def _chained(*parts: Iterable[Any]) -> Iterator[Any]:
    for part in parts:
        yield from part


def _pieces(name: str, tensor: Tensor) -> Iterator[tuple[str, Any]]:
    """Runs of rows; the borders follow from shape and dtype, never from the layout in memory."""
    shape = tuple(tensor.shape)
    named = f"{name} ({str(tensor.dtype).removeprefix('torch.')} {'x'.join(map(str, shape)) or 'number'})"
    rows = tensor.unsqueeze(0) if tensor.dim() == 0 else tensor
    num = max(1, PIECE_BYTES // max(1, rows[:1].numel() * rows.element_size()))
    if len(rows) <= num:
        yield named, partial(tensor_bytes, rows)
        return
    for start in range(0, len(rows), num):
        piece = rows[start : start + num]
        yield f"{named}, samples {start} to {start + len(piece) - 1}", partial(tensor_bytes, piece)


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor, without a copy where it lies in one piece on the CPU."""
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")


def _rows(samples: Any) -> Iterator[tuple[str, Any]]:
    for start in range(0, len(samples), _LIST_ROWS):
        stop = min(start + _LIST_ROWS, len(samples))
        yield f"samples {start} to {stop - 1}", partial(_joined, samples, start, stop)


def _joined(samples: Any, start: int, stop: int) -> bytes:
    return b"".join(piece for sample in samples[start:stop] for piece in _leaf_bytes(sample))


def _is_plain(tree: Any) -> bool:
    """A tree of which equal bytes mean equal values."""
    if isinstance(tree, dict):
        return all(map(_is_plain, tree.values()))
    if isinstance(tree, list | tuple):
        return all(map(_is_plain, tree))
    return isinstance(tree, (Tensor, np.ndarray, np.generic, *_PLAIN)) and not _holds_objects(tree)


def _holds_objects(leaf: Any) -> bool:
    """Such an array holds addresses."""
    return isinstance(leaf, np.ndarray) and leaf.dtype.hasobject


def _leaf_bytes(tree: Any) -> Iterator[bytes | memoryview]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield f"{key!r}:".encode()
            yield from _leaf_bytes(value)
    elif isinstance(tree, list | tuple):
        yield f"{type(tree).__name__}{len(tree)}".encode()
        for value in tree:
            yield from _leaf_bytes(value)
    elif isinstance(tree, Tensor):
        yield f"{tree.dtype}{tuple(tree.shape)}".encode()
        yield tensor_bytes(tree)
    elif isinstance(tree, np.ndarray | np.generic):
        yield f"{tree.dtype}{tree.shape}".encode()
        yield tree.tobytes()
    elif isinstance(tree, bytes):
        yield f"bytes{len(tree)}:".encode()
        yield tree
    else:
        text = repr(tree)
        yield f"{type(tree).__name__}{len(text)}:{text}".encode()


def _table(dataset: Any) -> Iterator[tuple[str, Any]]:
    """The rows as Arrow holds them, and the rows that were chosen of them."""
    tables = {"rows": dataset.data.table}
    if dataset._indices is not None:  # select and shuffle keep the table and note the rows
        tables["indices"] = dataset._indices.table
    yield "columns", str(dataset.features).encode()
    for name, table in tables.items():
        done = 0
        for batch in table.to_batches(max_chunksize=_TABLE_ROWS):
            yield f"{name} {done} to {done + batch.num_rows - 1}", partial(_serialized, batch)
            done += batch.num_rows


def _serialized(batch: Any) -> memoryview:
    return memoryview(batch.serialize())
