"""Files mapped into memory as arrays; one that is shortened while it is read is named before it kills the process."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np

from hemostat.errors import TaskError


class MappedFile:
    """A file as a read-only array; nothing is read here.

    Touching a page behind the end of a file kills the process without a word (SIGBUS), so whoever reads calls
    `check` before, which asks the open file for its size.

    Args:
        path: the file.
        dtype: of a plain file; None reads a `.npy`, which knows its own.
        fix: what to do about a file that is torn, as a sentence.

    Attributes:
        array: its content, a plain array: numpy's own subclass for maps is slow to index.

    Raises:
        TaskError: missing, not readable, or not a whole number of items.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> np.arange(3, dtype=np.uint16).tofile(f"{folder.name}/a.bin")
        >>> mapped = MappedFile(f"{folder.name}/a.bin", "uint16")
        >>> mapped.check()
        >>> mapped.array.tolist()
        [0, 1, 2]
    """

    def __init__(self, path: str | Path, dtype: str | None = None, fix: str = "Write it again.") -> None:
        self.path = Path(path)
        self._fix = fix
        try:
            if dtype is None:
                mapped = np.load(self.path, mmap_mode="r")
            elif not self.path.stat().st_size:
                mapped = np.zeros(0, dtype)
            else:
                mapped = np.memmap(self.path, dtype, mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise TaskError(f"{self.path} is missing or was cut short ({error}). {fix}") from None
        found = getattr(mapped, "_mmap", None)
        self._map: mmap.mmap | None = found if isinstance(found, mmap.mmap) else None
        self._size_bytes = 0 if self._map is None else self._map.size()
        self.array: np.ndarray[Any, Any] = np.asarray(mapped)

    def check(self) -> None:
        """Refuse to read a file that is shorter than when it was opened.

        Raises:
            TaskError: with both sizes.
        """
        if self._map is not None and (now := self._map.size()) < self._size_bytes:
            raise TaskError(
                f"{self.path} was shortened while it was read: it had {self._size_bytes:,} bytes and has {now:,} now. "
                f"{self._fix}"
            )
