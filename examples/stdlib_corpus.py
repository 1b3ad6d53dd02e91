"""The text of ByteGPT: source files of Python's standard library, split by file into training and held-out bytes."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

SEPARATOR = 0  # stands before every file and after the last one; no Python source holds this byte
IGNORE = -100  # target of a position past the end of the text
ONE_HELD_OUT_IN = 30
# Tests name what they test, installed packages differ from machine to machine, and the tables of
# `encodings` and `pydoc_data` are near copies of each other or no code at all.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "encodings", "pydoc_data"}
)


class SourceFile(NamedTuple):
    """One file: its path below the library's folder with `/`, and its bytes."""

    path: str
    content: bytes


class Corpus(NamedTuple):
    """Both parts, each sorted by path; no file stands in both, and no two files have one content."""

    train: tuple[SourceFile, ...]
    held_out: tuple[SourceFile, ...]


def is_held_out(path: str) -> bool:
    """One file in 30, chosen by the SHA-256 of its path: the same on every machine with this Python.

    Examples:
        >>> is_held_out("ast.py"), is_held_out("json/decoder.py")
        (True, False)
    """
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4]) % ONE_HELD_OUT_IN == 0


def read_files(root: Path) -> list[SourceFile]:
    """Every Python file below a folder but for skipped folders, empty files and files seen before."""
    files, seen = [], set()
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if SKIPPED_FOLDERS.intersection(relative.parts[:-1]):
            continue
        content = path.read_bytes()
        if not content or SEPARATOR in content or content in seen:
            continue
        seen.add(content)
        files.append(SourceFile(relative.as_posix(), content))
    return files


@cache
def load_corpus() -> Corpus:
    """The library of the Python that runs, about 9.9 MB in 3.11.

    Raises:
        FileNotFoundError: this Python comes without its source files.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = read_files(root)
    train = tuple(file for file in files if not is_held_out(file.path))
    held_out = tuple(file for file in files if is_held_out(file.path))
    if not train or not held_out:
        raise FileNotFoundError(f"{root} holds no Python source files: the library may be zipped")
    return Corpus(train, held_out)


def join(files: Iterable[SourceFile]) -> bytes:
    """One text with a separator before every file and after the last.

    Examples:
        >>> join([SourceFile("a.py", b"x=1"), SourceFile("b.py", b"y=2")])
        b'\\x00x=1\\x00y=2\\x00'
    """
    separator = bytes([SEPARATOR])
    return separator + b"".join(file.content + separator for file in files)


class ByteWindows(torch.utils.data.Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """A text cut into windows side by side: every byte but the first separator is a target exactly once.

    Args:
        text: the bytes.
        window: targets in one sample. The last sample is filled up with targets that are ignored.

    Examples:
        >>> inputs, targets = ByteWindows(b"abcdef", window=2).__getitems__([0, 2])
        >>> inputs.tolist()
        [[97, 98], [101, 102]]
        >>> targets.tolist()
        [[98, 99], [102, -100]]
    """

    def __init__(self, text: bytes, window: int) -> None:
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.num_targets = len(text) - 1
        self._offsets = torch.arange(window + 1)
        self._window = window

    def __len__(self) -> int:
        return -(-self.num_targets // self._window)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        inputs, targets = self.__getitems__([index])
        return inputs[0], targets[0]

    def __getitems__(self, indices: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """A whole batch at once: inputs and targets, int64 of shape (len(indices), window)."""
        positions = torch.tensor(indices)[:, None] * self._window + self._offsets
        past_end = positions > self.num_targets
        rows = self.text[positions.clamp(max=self.num_targets)].long()
        return rows[:, :-1].contiguous(), rows.masked_fill(past_end, IGNORE)[:, 1:].contiguous()
