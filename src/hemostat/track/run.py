"""The run directory: its name, its creation by whoever comes first, and changes to run.json."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hemostat.disk import recording
from hemostat.errors import FieldError
from hemostat.track.files import read_json, write_json
from hemostat.track.masking import mask_command, mask_values

FORMAT = 1
# no i, l, o, 0, 1: an id is read aloud and typed
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def new_run_id() -> str:
    """Make a run id: UTC minute, then five random characters; ids sort by time and are safe as file names.

    Examples:
        >>> import re
        >>> bool(re.fullmatch(r"[0-9]{8}-[0-9]{4}-[a-z2-9]{5}", new_run_id()))
        True
    """
    stamp = time.strftime("%Y%m%d-%H%M", time.gmtime())
    return f"{stamp}-{''.join(secrets.choice(_LETTERS) for _ in range(5))}"


def create_run(root: Path, run_id: str, header: Mapping[str, Any]) -> Path:
    """Make the run directory, or find it: the launcher and all ranks may call this in any order.

    Args:
        root: the folder of all runs, usually `.hemostat/runs`.
        run_id: from `new_run_id`, made once by whoever launches.
        header: what run.json shall say; secrets are masked. The first caller with a header that
            is not empty writes it; later callers change nothing, so ranks pass `{}`. `update_run` adds to it.

    Returns:
        The run directory.

    Raises:
        FieldError: the id is not safe as a folder name.
        RecordError: the folder cannot be written (full, read-only, not permitted).
    """
    if not _ID.fullmatch(run_id):
        raise FieldError(
            "run_id",
            run_id,
            "must be letters, digits, dots, dashes and underscores, at most 80",
            "Use hemostat.track.new_run_id().",
        )
    path = Path(root) / run_id
    with recording(path):
        path.mkdir(parents=True, exist_ok=True)
    if header and not (path / "run.json").exists():
        written = {"format": FORMAT, "id": run_id, "created": time.time(), **_masked(header)}
        write_json(path / "run.json", written, keep_existing=True)
    return path


def update_run(path: Path, **fields: Any) -> None:
    """Set top-level fields of run.json in one atomic change; callers on one machine take turns.

    Args:
        path: the run directory.
        **fields: new values; a field given as None is removed.

    Raises:
        RecordError: run.json cannot be read or written.
    """
    with _turn(path):
        try:
            header = read_json(path / "run.json")
        except FileNotFoundError:
            header = {"format": FORMAT, "id": path.name, "created": time.time()}
        merged = {**header, **_masked(fields)}
        write_json(path / "run.json", {key: item for key, item in merged.items() if item is not None})


def _masked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A command line is the place where people write secrets without thinking of them; settings are another."""
    kept = {"provenance": fields["provenance"]} if "provenance" in fields else {}  # its diff must still apply
    masked: dict[str, Any] = mask_values(dict(fields)) | kept
    command = fields.get("command")
    if isinstance(command, str):
        masked["command"] = " ".join(mask_command(command.split(" "), os.environ))
    elif isinstance(command, list | tuple):
        masked["command"] = mask_command([str(word) for word in command], os.environ)
    return masked


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    with recording(path):
        descriptor = os.open(path, os.O_RDONLY)
    try:
        # some network volumes have no locks; the rename still keeps the file whole there
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
