"""exit.<rank>.json: how each rank ended, and which of the ranks' answers is the run's."""

from __future__ import annotations

import time
from pathlib import Path

from hemostat.errors import RecordError
from hemostat.track.files import read_json, write_json

# From most to least telling. A usage error is the same on all ranks. 5, 4 and 75 are decided together, and a
# rank that leaves first or is killed makes others fail with 3 (connection closed), so 3 is the echo and comes
# after them. _KILLED stands for 128 + signal, which the launcher writes for a rank that could not.
_KILLED = 128
_ORDER = (2, 5, 4, 75, _KILLED, 3, 1)


def write_exit(run_dir: Path, rank: int, status: int, why: str) -> None:
    """Say how a rank ends; a later call of the same rank replaces the earlier one.

    Args:
        run_dir: the run directory.
        rank: global rank.
        status: 0 clean, 1 findings, 2 usage, 3 failure, 4 guard, 5 budget, 75 saved after a signal; the
            launcher writes 128 + signal for a rank that was killed.
        why: one sentence for a person; empty for a clean end.

    Raises:
        RecordError: the folder cannot be written.
    """
    record = {"rank": rank, "status": status, "why": why, "time": time.time()}
    write_json(run_dir / f"exit.{rank}.json", record)


def rank_exits(run_dir: Path) -> dict[int, tuple[int, str, float]]:
    """Read every rank's (status, why, time); a garbled file counts as absent."""
    found: dict[int, tuple[int, str, float]] = {}
    for path in run_dir.glob("exit.*.json"):
        try:
            record = read_json(path)
            rank, status = int(record["rank"]), int(record["status"])
            found[rank] = (status, str(record.get("why", "")), float(record.get("time", 0.0)))
        except (RecordError, OSError, KeyError, TypeError, ValueError):
            continue
    return found


def read_exit(run_dir: Path) -> tuple[int, str] | None:
    """Read how the run ended: the most telling of the ranks' answers.

    Order: 2 usage, 5 budget, 4 guard, 75 saved after a signal, 128 + signal killed, 3 failure, 1, any other, 0.
    Between ranks of the same kind the one that ended first speaks, since later ones often fail because of it.

    Returns:
        (status, why), or None when no rank has written.
    """
    exits = rank_exits(run_dir)
    if not exits:
        return None
    status, why, _ = min(exits.values(), key=lambda entry: (_weight(entry[0]), entry[2]))
    return status, why


def _weight(status: int) -> int:
    if status == 0:
        return len(_ORDER) + 1
    kind = _KILLED if _KILLED < status < _KILLED + 65 else status
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
