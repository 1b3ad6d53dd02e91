"""Fingerprint: which version of the data a run saw, at three levels, from files or from bytes in memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from hemostat.errors import FieldError, RecordError, UnknownNameError
from hemostat.track.digests import DigestCache

TIERS = ("stat", "sample", "full")
# 2 GiB take about 1.4 s with sha256 at 1.5 GiB/s (measured; shared hardware)
FULL_LIMIT_BYTES = 2 * 2**30
_SAMPLES = 64
_SAMPLE_BYTES = 64 * 1024
_BLOCK_BYTES = 4 << 20  # hashlib lets other threads run meanwhile; each block asks for the lock once
_MAX_LINES = 5

Buffer = bytes | bytearray | memoryview
Content = Buffer | str | os.PathLike[str] | Callable[[], Buffer]
Part = Buffer | str | os.PathLike[str] | tuple[str, Content]


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """A version of some data. Digests say something about each other only where the tier is the same.

    Attributes:
        tier: "full" = every byte was read; "sample" = names, sizes and 64 pieces of each large file;
            "stat" = names, sizes, times and inodes, which a copy of the same bytes does not share.
        digest: sha256 in hex.
        num_files: files, or parts in memory.
        num_bytes: bytes of data, whether read or not.
        files: (bytes, digest) of each file or part by its name.
    """

    tier: str
    digest: str
    num_files: int
    num_bytes: int
    files: dict[str, tuple[int, str]] = {}

    def summary(self) -> dict[str, Any]:
        """Everything but the list of files."""
        return {name: getattr(self, name) for name in ("tier", "digest", "num_files", "num_bytes")}

    def changes(self, before: Mapping[str, Sequence[Any]]) -> list[str]:
        """Sentences about the files that differ from those of an earlier fingerprint of the same tier.

        Args:
            before: its `files`.

        Returns:
            One sentence each; beyond five, the last one counts the rest.

        Examples:
            >>> fingerprint([("a.bin", b"new")]).changes(fingerprint([("a.bin", b"old")]).files)
            ['shard a.bin differs']
        """
        found = []
        for name in sorted({*self.files, *before}):
            now, then = self.files.get(name), before.get(name)
            if then is None:
                found.append(f"shard {name} is new")
            elif now is None:
                found.append(f"shard {name} is gone")
            elif now[0] != then[0]:
                found.append(f"shard {name} differs: {now[0]:,} bytes, {then[0]:,} before")
            elif not (
                now[1].startswith(then[1]) or then[1].startswith(now[1])
            ):  # a run keeps 128 bits of each
                found.append(f"shard {name} differs")
        if len(found) > _MAX_LINES:
            found[_MAX_LINES - 1 :] = [f"and {len(found) - _MAX_LINES + 1} more shards"]
        return found


class _Shard(NamedTuple):
    name: str
    num_bytes: int
    digest: bytes


def fingerprint(
    parts: Part | Iterable[Part],
    tier: str | None = None,
    *,
    cache: Path | None = None,
    pause: Callable[[], None] | None = None,
) -> Fingerprint:
    """Hash data: paths (a folder stands for all files below it), or bytes in memory, in any mixture.

    Files are hashed by their name inside the given folder and their content, so the same data in another
    place has the same digest. The order of paths does not matter; the order of parts in memory does.

    Args:
        parts: one part or many; str and Path are paths, bytes-like values (also contiguous arrays) are data. A pair
            (name, part) gives it another name; there, a function that returns bytes is called when they are needed.
        tier: "stat", "sample" or "full"; by default full up to 2 GiB of files, sample beyond.
        cache: sqlite file with the digests of files that were read before.
        pause: called between blocks and files; what it raises ends the work.

    Raises:
        FieldError: a path that does not exist, a value that is neither, or an unknown tier.
        RecordError: a file cannot be read, or changes while it is.

    Examples:
        >>> fingerprint([b"abc", b"d"]).digest == fingerprint([b"ab", b"cd"]).digest
        False
        >>> fingerprint(b"abc").num_bytes
        3
    """
    if tier is not None and tier not in TIERS:
        raise UnknownNameError("tier", tier, TIERS)
    one = isinstance(parts, bytes | bytearray | memoryview | str | os.PathLike | tuple)
    every: Iterable[Any] = [cast("Part", parts)] if one else cast("Iterable[Part]", parts)
    rest = pause or _go_on
    if tier is None:
        every = list(every)
        files = [part for part in every if isinstance(_named(part)[1], str | os.PathLike)]
        tier = "sample" if files and fingerprint(files, "stat").num_bytes > FULL_LIMIT_BYTES else "full"
    named: list[_Shard] = []
    unnamed: list[_Shard] = []
    with DigestCache(cache) as known:
        reader = _Reader(tier, known, rest)
        for part in every:
            name, content = _named(part)
            if isinstance(content, str | os.PathLike):
                named += [reader.file(*found) for found in _files(name, Path(content), rest)]
            elif name is None:
                unnamed.append(reader.memory(f"part {len(unnamed)}", content))
            else:
                named.append(reader.memory(name, content))
    return _joined(tier, named, unnamed)


def _joined(tier: str, named: list[_Shard], unnamed: list[_Shard]) -> Fingerprint:
    memory = hashlib.sha256(b"".join(shard.digest for shard in unnamed))
    root = hashlib.sha256(f"hemostat-1:{tier}:".encode() + memory.digest())
    files: dict[str, tuple[int, str]] = {}
    named = sorted(named, key=lambda shard: (shard.name, shard.digest))
    for shard in (*unnamed, *named):
        name, number = shard.name, 2
        while name in files:  # files of one name in several folders
            name, number = f"{shard.name} ({number})", number + 1
        files[name] = (shard.num_bytes, shard.digest.hex())
    for shard in named:
        text = f"{len(shard.name.encode())}:{shard.name}:{shard.num_bytes}:"
        root.update(text.encode() + shard.digest)
    num_bytes = sum(shard.num_bytes for shard in (*named, *unnamed))
    return Fingerprint(
        tier=tier, digest=root.hexdigest(), num_files=len(files), num_bytes=num_bytes, files=files
    )


def _go_on() -> None:
    pass


def _named(part: Any) -> tuple[str | None, Any]:
    return part if isinstance(part, tuple) else (None, part)


def _files(name: str | None, path: Path, pause: Callable[[], None]) -> Iterator[tuple[str, Path]]:
    """(name, path) of a file, or of all regular files below a folder."""
    try:
        if not path.is_dir():
            yield name or path.name, path
            return
        for folder, _, found in os.walk(path, onerror=_refuse):
            below = Path(folder).relative_to(path).as_posix()
            for item in sorted(found):
                inside = Path(folder, item)
                if inside.is_file():
                    yield item if below == "." else f"{below}/{item}", inside
            pause()
    except OSError as error:
        raise RecordError(f"fingerprint={str(path)!r}: cannot be read, {error.strerror}.") from None


def _refuse(error: OSError) -> None:
    raise error


class _Reader:
    """Reads as much of a part as its tier wants."""

    def __init__(self, tier: str, known: DigestCache, pause: Callable[[], None]) -> None:
        self._tier = tier
        self._known = known
        self._pause = pause
        self._block = bytearray(_BLOCK_BYTES if tier != "stat" else 0)

    def file(self, name: str, path: Path) -> _Shard:
        path = path.absolute()
        self._pause()
        try:
            for _ in range(2):
                before = path.stat()
                if not stat.S_ISREG(before.st_mode):
                    raise FieldError("fingerprint", str(path), "is not a regular file", "Leave it out.")
                size = before.st_size
                if self._tier == "stat":
                    text = f"{size}:{before.st_mtime_ns}:{before.st_ino}"
                    return _Shard(name, size, hashlib.sha256(text.encode()).digest())
                level = "full" if size <= _SAMPLES * _SAMPLE_BYTES else self._tier
                digest = self._known.get(path, level, before)
                if digest is None:
                    digest = self._read(path, level, size)
                    after = path.stat()
                    if (size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                        continue
                    self._known.put(path, level, before, digest)
                return _Shard(name, size, digest)
        except FileNotFoundError:
            raise FieldError("fingerprint", str(path), "no such file or folder", "Check the path.") from None
        except OSError as error:
            raise RecordError(
                f"fingerprint={str(path)!r}: cannot be read, {error.strerror}. Check its permissions."
            ) from None
        raise RecordError(
            f"fingerprint={str(path)!r}: changes while it is read. Wait for what writes it, or end it."
        )

    def _read(self, path: Path, level: str, size: int) -> bytes:
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            if level == "full":
                view = memoryview(self._block)
                left = size + 1  # a file that grows faster than it is read would have no end
                while left > 0 and (num := file.readinto(view)):
                    digest.update(view[:num])
                    left -= num
                    self._pause()
                return digest.digest()
            for index in range(_SAMPLES):
                file.seek((size - _SAMPLE_BYTES) * index // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
        return digest.digest()

    def memory(self, name: str, content: Any) -> _Shard:
        if self._tier == "stat":
            num_bytes = 0 if callable(content) else _view(content).nbytes
            return _Shard(name, num_bytes, hashlib.sha256(str(num_bytes).encode()).digest())
        view = _view(content() if callable(content) else content)
        size = view.nbytes
        digest = hashlib.sha256()
        if self._tier == "sample" and size > _SAMPLES * _SAMPLE_BYTES:
            pieces = [((size - _SAMPLE_BYTES) * k // (_SAMPLES - 1), _SAMPLE_BYTES) for k in range(_SAMPLES)]
        else:
            pieces = [(start, _BLOCK_BYTES) for start in range(0, size, _BLOCK_BYTES)]
        flat = view.cast("B") if size else view
        for start, length in pieces:
            digest.update(flat[start : start + length])
            self._pause()
        return _Shard(name, size, digest.digest())


def _view(part: Any) -> memoryview:
    try:
        view = memoryview(part)
        return view if view.c_contiguous else memoryview(bytes(view))
    except TypeError:
        raise FieldError(
            "fingerprint", type(part).__name__, "is neither a path nor bytes", "Give paths, or bytes."
        ) from None
