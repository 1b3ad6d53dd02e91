"""What a disk refuses, as one error with its repair; and folders that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hemostat.errors import FieldError, RecordError

_ROOM = "Free some space, or choose another folder."
_PROBE_BYTES = 1 << 20
_WHY = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("the disk quota is used up", _ROOM),
    errno.EFBIG: ("the file-size limit is reached", "Raise `ulimit -f`."),
    errno.EROFS: ("the file system is read-only", "Choose a folder that can be written."),
    errno.EACCES: ("permission denied", "Choose a folder that can be written."),
    errno.EPERM: ("permission denied", "Choose a folder that can be written."),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Choose another folder."),
    errno.EEXIST: ("there is a file of that name already", "Choose another folder."),
}


def refused(error: OSError) -> str:
    """What the system says, with its repair.

    Examples:
        >>> refused(OSError(errno.ENOSPC, "No space left on device"))
        'the disk is full. Free some space, or choose another folder.'
    """
    reason, fix = _WHY.get(error.errno or 0, (error.strerror or str(error), "Check the path."))
    return f"{reason}. {fix}"


def refusal(folder: Path, num_bytes: int) -> str:
    """What the system says to a file of so many bytes now, with its repair; empty where it takes one.

    For libraries that hide the system's word: what they have written meanwhile must still be there.

    Args:
        folder: where the file was to be.
        num_bytes: of the file; the first MiB and the last byte are tried.
    """
    probe = folder / f".probe.{os.getpid()}.tmp"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            left = memoryview(bytes(min(num_bytes, _PROBE_BYTES)))
            while left:
                left = left[os.write(descriptor, left) :]
            os.pwrite(descriptor, b"\0", max(0, num_bytes - 1))
        finally:
            os.close(descriptor)
    except OSError as error:
        return refused(error)
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return ""


@contextlib.contextmanager
def recording(path: str | Path, field: str = "record") -> Iterator[None]:
    """Turn what the operating system says about `path` into one `RecordError` with the repair.

    Args:
        path: what is written.
        field: what the user calls it.

    Raises:
        RecordError: any `OSError` inside the block.
    """
    try:
        yield
    except OSError as error:
        raise RecordError(f"{field}={str(path)!r}: cannot be written, {refused(error)}") from error


@contextlib.contextmanager
def new_folder(folder: Path, field: str) -> Iterator[Path]:
    """A folder to write into that gets its name when the block ends, and is gone when it raises.

    Args:
        folder: it must not exist, or be empty.
        field: what the user calls it.

    Yields:
        An empty folder beside it, on the same disk.

    Raises:
        FieldError: the folder is in use.
        RecordError: the disk refused, inside of the block too.

    Examples:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp()) / "new"
        >>> with new_folder(place, "dir") as beside:
        ...     _ = (beside / "a.txt").write_text("whole")
        >>> [path.name for path in place.iterdir()]
        ['a.txt']
    """
    with recording(folder, field):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise FieldError(field, str(folder), "is there already and not empty", "Choose another folder.")
        _sweep(folder)
        beside = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        try:
            beside.mkdir(parents=True)
            yield beside
            if folder.exists():
                folder.rmdir()
            give_name(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def give_name(beside: Path, folder: Path) -> None:
    """Rename a finished folder to a name that is free, so that not even a crash shows half of it.

    Raises:
        OSError: the disk refused.
    """
    _sync(beside)
    beside.rename(folder)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network volumes cannot sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left."""
    for left in folder.parent.glob(f".{folder.name}.*.tmp"):
        number = left.name.split(".")[-2]
        if number.isdecimal() and not Path(f"/proc/{number}").exists() and Path("/proc/self").exists():
            shutil.rmtree(left, ignore_errors=True)
