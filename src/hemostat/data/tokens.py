"""A memory-mapped file of tokens as a data set of windows: opened in no time, whatever its size."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from hemostat.data.checks import check_count
from hemostat.data.mapped import MappedFile
from hemostat.errors import FieldError, HemostatWarning, TaskError

_LOOKED_AT: Final = 4096  # tokens: two pages, or four
_TOO_FEW: Final = 64
_HUGE: Final = 1 << 20  # beyond the vocabularies in use, of which the largest are near 2^18


class TokenFile:
    """Windows of `window` tokens, one after the other, each with the same window one token later as target.

    The file is nothing but the tokens (`numpy.ndarray.tofile`), or a one-dimensional `.npy`. Only the pages that
    are asked for are read, and threads, worker processes and ranks share them in the page cache.

    A plain file does not say how wide its tokens are: where the first ones look like those of the other width, a
    warning says so.

    Args:
        path: the file.
        window: tokens in one sample.
        dtype: "uint16" or "uint32" of a plain file; a `.npy` knows its own.

    Raises:
        TaskError: no such file, not a whole number of tokens, fewer than `window + 1` of them, or, from an item, a
            file that has been shortened meanwhile.
        FieldError: a window or a dtype that cannot be.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> np.arange(11, dtype=np.uint16).tofile(f"{folder.name}/train.bin")
        >>> data = TokenFile(f"{folder.name}/train.bin", window=4)
        >>> len(data), [part.tolist() for part in data[1]]
        (2, [[4, 5, 6, 7], [5, 6, 7, 8]])
    """

    def __init__(self, path: str | Path, window: int, dtype: str = "uint16") -> None:
        check_count("window", window)
        if dtype not in ("uint16", "uint32"):
            raise FieldError("dtype", dtype, "must be uint16 or uint32", "Say how the tokens were written.")
        self.path = Path(path)
        self.window = window
        self.dtype = dtype
        self._open()

    def _open(self) -> None:
        tokens = self._tokens()
        self.num_tokens = len(tokens)
        if self.num_tokens < self.window + 1:
            raise TaskError(
                f"{self.path} has {self.num_tokens} tokens: a sample needs {self.window + 1}. "
                f"Lower window, or check how the file was written."
            )
        rows = (self.num_tokens - 1) // self.window
        step = tokens.itemsize
        # overlapping rows of the map itself: nothing is read here
        self._rows = np.lib.stride_tricks.as_strided(
            tokens, (rows, self.window + 1), (self.window * step, step), writeable=False
        )

    def _tokens(self) -> np.ndarray[Any, Any]:
        if not self.path.is_file():
            what = "is a folder: give the file" if self.path.is_dir() else "no such file"
            raise TaskError(f"{self.path}: {what}. Check the path of the tokens.")
        fix = "Write the tokens again, and start the run anew."
        if self.path.suffix == ".npy":
            self._file = MappedFile(self.path, fix=fix)
            tokens = self._file.array
            if tokens.ndim != 1 or tokens.dtype.kind not in "ui":
                raise TaskError(
                    f"{self.path} holds {tokens.dtype} of shape {tokens.shape}: tokens are a row of whole "
                    f"numbers. Save them as one flat array."
                )
            return tokens
        itemsize = np.dtype(self.dtype).itemsize
        size_bytes = self.path.stat().st_size
        if size_bytes % itemsize:
            raise TaskError(
                f"{self.path} has {size_bytes} bytes, not a whole number of {self.dtype} tokens. "
                f"It was cut short, or its dtype is another."
            )
        self._file = MappedFile(self.path, self.dtype, fix)
        self._look_at_width(self._file.array[:_LOOKED_AT])
        return self._file.array

    def _look_at_width(self, first: np.ndarray[Any, Any]) -> None:
        """Of pairs of uint16 read as uint32 nearly all are huge; of uint32 read as uint16 every second one is 0."""
        if len(first) < _TOO_FEW:
            return
        if self.dtype == "uint32" and np.median(first) >= _HUGE:
            seen, other = f"most of its first tokens are {_HUGE:,} or more", "uint16"
        elif self.dtype == "uint16" and not first[1::2].any() and first[::2].any():
            seen, other = "every second one of its first tokens is 0", "uint32"
        else:
            return
        warnings.warn(
            f"{self.path}: {seen}, so it was probably written as {other}. Read it so: dtype={other!r}.",
            HemostatWarning,
            stacklevel=5,
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]

    def __getitems__(self, indices: Sequence[int] | Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of many windows, int64 of shape (n, window)."""
        self._file.check()
        rows = torch.from_numpy(self._rows[np.asarray(indices)].astype(np.int64))
        return rows[:, :-1], rows[:, 1:]

    def fingerprint(self) -> Path:
        """What identifies the data: the file."""
        return self.path

    def __getstate__(self) -> dict[str, Any]:
        """Path and shape only; who unpickles it opens the file."""
        return {"path": self.path, "window": self.window, "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()
