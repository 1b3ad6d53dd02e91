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
from hemostat.track.attempts import Attempt, read_attempts
from hemostat.track.exits import rank_exits
from hemostat.track.files import read_json, write_json
from hemostat.track.index import list_runs
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

    Its summary says what it spent up to the end of the attempt that wrote it. Attempts that wrote none, since they
    were killed or are still going on, are counted each from its start to the last that was heard of it: a line of
    metrics or an exit file. What lies between two attempts costs nothing, and a clock that was set between them is
    never asked.
    """
    summary = record.summary
    price = record.headline.get("hardware", {}).get("usd_per_hour")
    attempts = read_attempts(record.path)
    is_counted = isinstance(summary.get("spent_s"), int | float)
    seconds = float(summary["spent_s"]) if is_counted else 0.0
    ended = max(float(summary.get("ended") or 0.0) if is_counted else 0.0, record.created)
    for index in range(_num_counted(attempts, ended) if is_counted else 0, len(attempts)):
        attempt = attempts[index]
        begins = (index == 0 and attempt.began is None and record.created) or attempt.start
        last = attempt.last + (_silence_s(record.path) if index == len(attempts) - 1 else 0.0)
        seconds += max(0.0, last - begins)
        ended = max(ended, last)
    if seconds <= 0:
        return None
    usd = float(price) * seconds / 3600.0 if isinstance(price, int | float) else None
    return budget.Spent(run=record.id, started=record.created, ended=ended, seconds=seconds, usd=usd)


def _num_counted(attempts: list[Attempt], ended: float) -> int:
    """How many attempts a summary covers: those up to the last that ended; without marks, those before it."""
    marked = [index for index, attempt in enumerate(attempts) if attempt.ended]
    if marked:
        return marked[-1] + 1
    return sum(attempt.start <= ended for attempt in attempts)


def _silence_s(run_dir: Path) -> float:
    """Seconds from the last line to the exit files: a rank that hung before it was killed was paid for."""
    try:
        written = (run_dir / "metrics.0.jsonl").stat().st_mtime
    except OSError:
        return 0.0
    return max((0.0, *(moment - written for _, _, moment in rank_exits(run_dir).values())))


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
