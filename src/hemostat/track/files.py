"""Small JSON files that are there whole or not at all: written beside, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import math
import os
from pathlib import Path
from typing import Any

import msgspec

from hemostat.disk import recording
from hemostat.errors import RecordError


def plain_json(value: Any) -> Any:
    """Make a value fit for JSON: NaN and infinities become the strings "nan", "inf" and "-inf".

    JSON has no such numbers; `null` would lose which one it was.

    Examples:
        >>> plain_json({"best": float("nan"), "lr": (0.1, float("-inf"))})
        {'best': 'nan', 'lr': [0.1, '-inf']}
    """
    return _finite(msgspec.to_builtins(value, enc_hook=str))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def write_json(path: Path, value: Any, *, keep_existing: bool = False) -> bool:
    """Write a file so that a reader, a crash or a full disk never meets half of it.

    Args:
        path: the file; its folder must exist.
        value: anything that `plain_json` takes.
        keep_existing: leave a file that is there already as it is (the first writer wins).

    Returns:
        Whether this call wrote the file.

    Raises:
        RecordError: the disk is full, read-only or not permitted.
    """
    text = msgspec.json.format(msgspec.json.encode(plain_json(value)), indent=1)
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(3).hex()}.tmp")
    with recording(path):
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                write_all(descriptor, text + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            return _publish(beside, path, keep_existing)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _publish(beside: Path, path: Path, keep_existing: bool) -> bool:
    if keep_existing:
        try:
            # a hard link fails when the name is taken, so two writers cannot both win
            os.link(beside, path)
            return True
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            if path.exists():  # some network and FAT volumes have no hard links
                return False
    beside.replace(path)
    return True


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """`os.write` until all is written; a full disk can accept the first half only."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_json(path: Path) -> dict[str, Any]:
    """Read one of these files.

    Raises:
        FileNotFoundError: there is none.
        RecordError: it cannot be read, or is not a JSON object.
    """
    try:
        value = msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RecordError(
            f"record={str(path)!r}: cannot be read, {error.strerror}. Check the path."
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(
            f"record={str(path)!r}: is not valid JSON ({error}). Restore or delete the file."
        ) from None
    if not isinstance(value, dict):
        raise RecordError(f"record={str(path)!r}: is not a JSON object. Restore or delete the file.")
    return value
