"""Hashes the training data of a run while it trains, in a thread that steps aside, and says how far it came."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from hemostat.blame import said, user_line
from hemostat.errors import HemostatError
from hemostat.track import RunRecord, fingerprint, list_runs, update_run

CACHE: Final = "digests.sqlite"
TIERS: Final = ("stat", "sample", "full")
_SMALL_BYTES: Final = 256 << 20  # a fifth of a second: a sample of it would save nothing
_BURST_S: Final = 0.002
_FIRST_S: Final = 0.1  # of work at the usual priority: on a busy machine, small data would not be done else
_GRACE_S: Final = 0.5


class _EndedError(Exception):
    """The run is over."""


class DataWatch:
    """The data section of one run.

    Level after level is reached: "stat", "sample" (of data beyond 256 MiB), "full". Each is written to run.json at
    once, under `tier` and `digest` for the highest and under `digests` for all; the digests of single files go to
    `data.<tier>.json` beside it. Where the latest run of the same task saw other data, `changes` says which files.

    Args:
        parts: what `hemostat.track.fingerprint` takes; read in this object's thread.
        known: what is written before anything is read.
    """

    def __init__(self, parts: list[Any], known: dict[str, Any]) -> None:
        self.known = known
        self._parts = parts
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._burst_s = 0.0
        self._steps_aside = False

    def start(self, run: Path) -> None:
        """Begin; returns at once."""
        self._thread = threading.Thread(target=self._work, args=(run,), name="hemostat-data", daemon=True)
        self._thread.start()

    def close(self, grace_s: float = _GRACE_S) -> None:
        """End it; what is nearly done may be done.

        Args:
            grace_s: seconds that it may still take.
        """
        if self._thread is None:
            return
        self._thread.join(grace_s)
        self._end.set()
        self._thread.join()
        self._thread = None

    def _work(self, run: Path) -> None:
        self._burst_s = time.perf_counter()
        digests: dict[str, str] = {}
        section = dict(self.known)
        try:
            for tier in TIERS:
                if tier == "sample" and section["num_bytes"] <= _SMALL_BYTES:
                    continue
                found = fingerprint(self._parts, tier, cache=run.parent / CACHE, pause=self._pause)
                record = RunRecord(run, {})
                before = record.fingerprint(tier)  # of an earlier attempt, where the run was resumed
                record.add_fingerprint(found)
                digests[tier] = found.digest
                section |= {**found.summary(), "digests": digests, "comparable": "equal tiers only"}
                if tier != "stat":
                    section |= _changes(run, tier, before)
                update_run(run, data=section)
        except _EndedError:
            pass
        except Exception as error:  # noqa: BLE001 - a part may be the user's code; the run goes on, the record says it
            note = str(error) if isinstance(error, HemostatError) else f"{user_line(error)}: {said(error)}"
            with suppress(HemostatError):
                update_run(run, data=section | {"note": note})

    def _pause(self) -> None:
        """Work in bursts of 2 ms, so that a training step finds the interpreter free in between."""
        if self._end.is_set():
            raise _EndedError
        if not self._steps_aside and time.thread_time() > _FIRST_S:
            self._steps_aside = True
            if sys.platform == "linux":  # the nice value of one thread
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        spent = time.perf_counter() - self._burst_s
        if spent > _BURST_S:
            self._end.wait(min(spent, 0.02))
            self._burst_s = time.perf_counter()


def _changes(run: Path, tier: str, before: Any) -> dict[str, Any]:
    """What differs from the earlier attempt of this run, else from the latest run of the same task."""
    mine, since = RunRecord(run, {}), run.name
    task = mine.header.get("task")
    if before is None and isinstance(task, dict):
        for other in list_runs(run.parent):
            if other.id != run.name and _same_task(other.headline.get("task"), task):
                before, since = other.fingerprint(tier), other.id
            if before is not None:
                break
    now = mine.fingerprint(tier)
    if before is None or now is None or now.digest == before.digest:
        return {}
    listed = before.files and now.files  # of very many files, only the digest of all is kept
    what = now.changes(before.files) if listed else ["the data differ"]
    return {"changes": {"since": since, "tier": tier, "what": what}}


def _same_task(other: Any, task: dict[str, Any]) -> bool:
    return isinstance(other, dict) and other.get("spec") == task.get("spec")
