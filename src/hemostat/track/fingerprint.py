"""Fingerprint: which version of the data a run saw, from files or from bytes in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import msgspec

from hemostat.errors import FieldError, RecordError

# 2 GiB take about 1.4 s with sha256 at 1.5 GiB/s (measured; shared hardware)
FULL_LIMIT_BYTES = 2 * 2**30
_SAMPLES = 64
_SAMPLE_BYTES = 64 * 1024
_BLOCK_BYTES = 1 << 20

Part = bytes | bytearray | memoryview | str | os.PathLike[str]


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """A version of some data.

    Attributes:
        tier: "full" = every byte was read; "sample" = names, sizes and 64 pieces of each large file.
        digest: sha256 in hex; equal data of equal tier give equal digests.
        num_files: files, or parts in memory.
        num_bytes: bytes of data, whether read or not.
    """

    tier: str
    digest: str
    num_files: int
    num_bytes: int


def fingerprint(parts: Part | Iterable[Part], tier: str | None = None) -> Fingerprint:
    """Hash data: paths (a folder stands for all files below it), or bytes in memory, in any mixture.

    Files are hashed by their name inside the given folder and their content, so the same data in another
    place has the same digest. The order of paths does not matter; the order of parts in memory does.

    Args:
        parts: one part or many; str and Path are paths, bytes-like values (also contiguous arrays) are data.
        tier: "full" or "sample"; by default full up to 2 GiB of files, sample beyond.

    Raises:
        FieldError: a path that does not exist, a value that is neither, or an unknown tier.
        RecordError: a file cannot be read.

    Examples:
        >>> fingerprint([b"abc", b"d"]).digest == fingerprint([b"ab", b"cd"]).digest
        False
        >>> fingerprint(b"abc").num_bytes
        3
    """
    if tier not in (None, "full", "sample"):
        raise FieldError("tier", tier, "must be full or sample", "Write one of these.")
    one = isinstance(parts, bytes | bytearray | memoryview | str | os.PathLike)
    every = cast("Iterable[Part]", [parts] if one else parts)
    files: list[tuple[str, Path, int]] = []
    memory = hashlib.sha256()
    num_memory = memory_bytes = 0
    for part in every:
        if isinstance(part, str | os.PathLike):
            files.extend(_files(Path(part)))
        else:
            view = _view(part)
            memory.update(hashlib.sha256(view).digest())
            num_memory, memory_bytes = num_memory + 1, memory_bytes + view.nbytes
    file_bytes = sum(size for _, _, size in files)
    chosen = tier or ("full" if file_bytes <= FULL_LIMIT_BYTES else "sample")
    root = hashlib.sha256(f"hemostat-1:{chosen}:".encode() + memory.digest())
    for name, path, size in sorted(files):
        root.update(f"{len(name.encode())}:{name}:{size}:".encode() + _hash_file(path, size, chosen))
    return Fingerprint(
        tier=chosen,
        digest=root.hexdigest(),
        num_files=len(files) + num_memory,
        num_bytes=file_bytes + memory_bytes,
    )


def _view(part: bytes | bytearray | memoryview) -> memoryview:
    try:
        view = memoryview(part)
        return view if view.c_contiguous else memoryview(bytes(view))
    except TypeError:
        raise FieldError(
            "fingerprint", type(part).__name__, "is neither a path nor bytes", "Give paths, or bytes."
        ) from None


def _files(path: Path) -> list[tuple[str, Path, int]]:
    try:
        if path.is_dir():
            below = sorted(item for item in path.rglob("*") if item.is_file())
            return [(item.relative_to(path).as_posix(), item, item.stat().st_size) for item in below]
        return [(path.name, path, path.stat().st_size)]
    except FileNotFoundError:
        raise FieldError("fingerprint", str(path), "no such file or folder", "Check the path.") from None
    except OSError as error:
        raise RecordError(f"fingerprint={str(path)!r}: cannot be read, {error.strerror}.") from None


def _hash_file(path: Path, size: int, tier: str) -> bytes:
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            if tier == "full" or size <= _SAMPLES * _SAMPLE_BYTES:
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
                return digest.digest()
            for index in range(_SAMPLES):
                file.seek((size - _SAMPLE_BYTES) * index // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
            return digest.digest()
    except OSError as error:
        raise RecordError(
            f"fingerprint={str(path)!r}: cannot be read, {error.strerror}. Check its permissions."
        ) from None
