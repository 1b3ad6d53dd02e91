"""Lists and finds runs: a sqlite cache over the run directories that may be deleted at any time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from hemostat.errors import FieldError, HemostatError, UnknownNameError
from hemostat.track.files import plain_json, read_json
from hemostat.track.record import RunRecord

_FILE = "index.sqlite"
_VERSION = 1
_TABLE = "CREATE TABLE runs (id TEXT PRIMARY KEY, stamp TEXT, headline BLOB, error TEXT)"
_BULKY = ("environment", "packages", "diff", "untracked")


def list_runs(root: Path, *, rebuild: bool = False) -> list[RunRecord]:
    """List all runs below a folder, newest first; one that cannot be read is listed with its error.

    Only what changed since the last call is read again. The index is a cache: when it is deleted, garbled, or
    cannot be written, the directories alone give the same answer, a little later.

    Args:
        root: the folder of all runs, usually `.hemostat/runs`. A missing folder has no runs.
        rebuild: read every directory again.

    Raises:
        FieldError: the folder cannot be read, or is a file.
    """
    root = Path(root)
    stamps = _stamps(root)
    if not stamps:
        return []
    with _opened(root / _FILE, rebuild) as index:
        known = {row[0]: row[1:] for row in index.execute("SELECT id, stamp, headline, error FROM runs")}
        fresh = []
        for run_id, stamp in stamps.items():
            if known.get(run_id, ("",))[0] != stamp:
                known[run_id] = (stamp, *_read(root / run_id))
                fresh.append((run_id, *known[run_id]))
        gone = [(run_id,) for run_id in known if run_id not in stamps]
        with contextlib.suppress(sqlite3.Error):  # read-only, or another process writes: next time then
            index.executemany("REPLACE INTO runs VALUES (?, ?, ?, ?)", fresh)
            index.executemany("DELETE FROM runs WHERE id = ?", gone)
            index.commit()
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    runs = [RunRecord(root / run_id, decode(known[run_id][1]), known[run_id][2]) for run_id in stamps]
    return sorted(runs, key=lambda run: (run.created or _time_in(run.id), run.id), reverse=True)


def load_run(root: Path, run_id: str = "last") -> RunRecord:
    """Find one run.

    Args:
        root: the folder of all runs.
        run_id: the id, a unique beginning or other part of it, or "last" for the newest.

    Raises:
        UnknownNameError: no such run; the nearest ones are listed.
        FieldError: several runs fit, or there are none at all.
    """
    root = Path(root)
    if run_id != "last" and "/" not in run_id and (root / run_id / "run.json").is_file():
        headline, error = _read(root / run_id)
        return RunRecord(root / run_id, msgspec.json.decode(headline), error)
    runs = list_runs(root)
    if not runs:
        raise FieldError(
            "run",
            run_id,
            f"there are no runs in {root}",
            "Start one with `hemostat train`, or change the folder.",
        )
    if run_id == "last":
        return runs[0]
    fitting = [run for run in runs if run.id.startswith(run_id)] or [run for run in runs if run_id in run.id]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(run.id for run in fitting[:5]) + (", ..." if len(fitting) > 5 else "")
        raise FieldError("run", run_id, f"fits {len(fitting)} runs: {shown}", "Write more of the id.")
    raise UnknownNameError("run", run_id, [run.id for run in runs[:8]] + ["last"])


def _stamps(root: Path) -> dict[str, str]:
    """Run id -> what changes when the directory or run.json changes."""
    found: dict[str, str] = {}
    try:
        entries = list(os.scandir(root))
    except FileNotFoundError:
        return found
    except NotADirectoryError:
        fix = "Give the folder of all runs, such as .hemostat/runs."
        raise FieldError("runs", str(root), "is a file, not a folder", fix) from None
    except OSError as error:
        raise FieldError("runs", str(root), f"cannot be read, {error.strerror}", "Check the path.") from None
    for entry in entries:
        with contextlib.suppress(OSError):
            if entry.is_dir() and not entry.name.startswith("."):
                found[entry.name] = _stamp(entry.path)
    return found


def _stamp(folder: str) -> str:
    try:
        header = os.stat(f"{folder}/run.json")  # noqa: PTH116 - thousands of these; a Path doubles the time
    except OSError:
        return "none"
    return f"{header.st_mtime_ns}:{header.st_size}:{header.st_ino}"


def _read(path: Path) -> tuple[bytes, str]:
    """(headline as JSON, error) of one run directory."""
    try:
        header = read_json(path / "run.json")
    except FileNotFoundError:
        return b"{}", "there is no run.json"
    except HemostatError as error:
        return b"{}", str(error)
    headline = {key: _slim(item) for key, item in header.items() if key != "recipe"}
    return msgspec.json.encode(plain_json(headline)), ""


def _slim(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _slim(value) for key, value in item.items() if key not in _BULKY}
    return item


def _time_in(run_id: str) -> float:
    """A rough time from the id, so that an unreadable run is not sorted to the end."""
    import calendar
    import time

    try:
        return float(calendar.timegm(time.strptime(run_id[:13], "%Y%m%d-%H%M")))
    except ValueError:
        return 0.0


@contextlib.contextmanager
def _opened(path: Path, rebuild: bool) -> Iterator[sqlite3.Connection]:
    index = _try_open(path, rebuild)
    try:
        yield index
    finally:
        index.close()


def _try_open(path: Path, rebuild: bool) -> sqlite3.Connection:
    for attempt in range(2):
        index = None
        try:
            index = sqlite3.connect(path, timeout=2.0, isolation_level=None)
            _prepare(index, rebuild)
            index.isolation_level = "DEFERRED"
            return index
        except sqlite3.DatabaseError as error:
            if index is not None:
                index.close()
            # a garbled cache is thrown away once; "locked" and "read-only" are not garbage
            if attempt == 0 and not isinstance(error, sqlite3.OperationalError):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                continue
            break
    index = sqlite3.connect(":memory:")
    index.execute(_TABLE)
    return index


def _prepare(index: sqlite3.Connection, rebuild: bool) -> None:
    """See to it that the table is there, in this version; of several processes one makes it and the others wait."""
    if not rebuild and _is_ready(index):
        return
    index.execute("BEGIN IMMEDIATE")
    if rebuild or not _is_ready(index):
        index.execute("DROP TABLE IF EXISTS runs")
        index.execute(_TABLE)
        index.execute(f"PRAGMA user_version = {_VERSION}")
    index.execute("COMMIT")


def _is_ready(index: sqlite3.Connection) -> bool:
    if index.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        return False
    index.execute("SELECT id, stamp, headline, error FROM runs LIMIT 1").fetchone()
    return True
