"""What each run has spent, from the run directories: runs that were killed and runs that were deleted count too."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hemostat.errors import RecordError
from hemostat.recipe import budget
from hemostat.track.exits import rank_exits
from hemostat.track.files import read_json, write_json
from hemostat.track.index import list_runs
from hemostat.track.metrics import read_lines
from hemostat.track.record import RunRecord

FILE = "ledger.json"


def read_ledger(root: Path) -> list[budget.Spent]:
    """What each run below a folder has spent, in order of their starts.

    The directories say it; `ledger.json` beside them only remembers runs whose directories are gone, so deleting it
    forgets those and nothing else.

    Args:
        root: the folder of all runs.
    """
    kept = _kept(root)
    found = {spent.run: spent for record in list_runs(root) if (spent := spent_by(record)) is not None}
    remembered = {name: spent for name, spent in kept["runs"].items() if name not in found}
    if any(kept["runs"].get(name) != spent for name, spent in found.items()):
        _keep(root, runs=found)
    return sorted([*found.values(), *remembered.values()], key=lambda spent: spent.started)


def spent_by(record: RunRecord) -> budget.Spent | None:
    """What one run has spent; None where it took no step or left no record of it.

    Its summary says what it spent up to its end. Attempts that left none, since they were killed or are still going
    on, are counted from their start to the last that was heard of them: a line of metrics or an exit file.
    """
    summary = record.summary
    price = record.headline.get("hardware", {}).get("usd_per_hour")
    is_counted = isinstance(summary.get("spent_s"), int | float)
    seconds = float(summary["spent_s"]) if is_counted else 0.0
    counted_until = float(summary.get("ended") or 0.0) if is_counted else 0.0
    starts = [record.created, *(attempt["time"] for attempt in record.headline.get("attempts", []))]
    open_starts = [start for start in starts if start > counted_until]
    ended = max(counted_until, record.created)
    if open_starts:
        heard = _heard_of(record)
        for start, until in zip(open_starts, [*open_starts[1:], float("inf")], strict=True):
            last = max((moment for moment in heard if start <= moment < until), default=start)
            seconds += last - start
            ended = max(ended, last)
    if seconds <= 0:
        return None
    usd = float(price) * seconds / 3600.0 if isinstance(price, int | float) else None
    return budget.Spent(run=record.id, started=record.created, ended=ended, seconds=seconds, usd=usd)


def _heard_of(record: RunRecord) -> list[float]:
    lines = [line.time for line in read_lines(record.path / "metrics.0.jsonl")]
    return lines + [moment for _, _, moment in rank_exits(record.path).values()] if lines else []


def first_time(root: Path, name: str, value: Any) -> bool:
    """Whether `value` is remembered under `name` for the first time; what a project says once is said once.

    Args:
        root: the folder of all runs.
        name: such as "warned".
        value: plain, such as 80.
    """
    with _turn(root):
        kept = _kept(root)
        said = kept["said"].setdefault(name, [])
        if value in said:
            return False
        said.append(value)
        write_json(root / FILE, kept)
        return True


def _kept(root: Path) -> dict[str, Any]:
    """{"runs": id -> budget.Spent, "said": name -> values}; a file that is garbled counts as absent."""
    try:
        kept = read_json(root / FILE)
        runs = msgspec.convert(kept.get("runs", {}), dict[str, budget.Spent])
        said = msgspec.convert(kept.get("said", {}), dict[str, list[Any]])
    except (FileNotFoundError, RecordError, msgspec.ValidationError):
        return {"runs": {}, "said": {}}
    return {"runs": runs, "said": said}


def _keep(root: Path, runs: dict[str, budget.Spent]) -> None:
    with contextlib.suppress(RecordError, OSError), _turn(root):  # read-only: next time then
        kept = _kept(root)
        write_json(root / FILE, {**kept, "runs": {**kept["runs"], **runs}})


@contextlib.contextmanager
def _turn(root: Path) -> Iterator[None]:
    descriptor = os.open(root, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network volumes have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
