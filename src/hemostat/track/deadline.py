"""deadline.json: when the cap of a run is reached, for a launching process whose ranks may never look again."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

_FILE = "deadline.json"


class Deadline(msgspec.Struct, frozen=True, kw_only=True):
    """When a run must have ended.

    Attributes:
        at_s: on the clock of `time.monotonic`, which all processes of one machine share and nobody sets back.
        cap: the cap as the user wrote it, such as "max_hours=4h00m".
    """

    at_s: float
    cap: str


def write_deadline(run_dir: Path, deadline: Deadline) -> None:
    """Replace what was said before; a folder that cannot be written is not worth an error here."""
    beside = run_dir / f".{_FILE}.tmp"
    with contextlib.suppress(OSError):
        # not synced: after the machine has gone down there is another clock
        beside.write_bytes(msgspec.json.encode(deadline))
        beside.replace(run_dir / _FILE)


def read_deadline(run_dir: Path) -> Deadline | None:
    """What was said, or None."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((run_dir / _FILE).read_bytes(), type=Deadline)
    return None


def forget_deadline(run_dir: Path) -> None:
    """Remove that of an earlier launch, or of one that is over."""
    with contextlib.suppress(OSError):
        (run_dir / _FILE).unlink(missing_ok=True)
