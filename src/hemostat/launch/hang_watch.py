"""Watches a job's ranks: one that keeps the others waiting is named, then killed; past a cap the job is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from hemostat.errors import BudgetStop, RecordError
from hemostat.track import Checkpoints, RunRecord, write_exit

LOOK_S = 0.5
CAP_GRACE_S = 5.0  # ranks that can still do anything leave by themselves at the cap, with a better record


class HangWatch:
    """While inside, a thread looks for a rank that hangs, and for a cap that was reached.

    The rank is killed: the others lose it and end as they do after any death, and with restarts all begin again.
    It works for ranks of this machine that beat; others are not watched. One that may only be slow is named and lives.
    A job that goes on behind its cap is ended as a whole, whatever it does; nothing is saved then.

    Args:
        run_dir: the run directory.
        end: ends the job.

    Attributes:
        found: rank and sentence of the last hang, or None.
    """

    def __init__(self, run_dir: Path, end: Callable[[], None] = lambda: None) -> None:
        self.found: tuple[int, str] | None = None
        self._record = RunRecord(run_dir)
        self._lookout = self._record.lookout()
        self._end = end
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hemostat-hang-watch", daemon=True)

    def __enter__(self) -> HangWatch:
        self._forget()  # what an earlier launch that was killed itself has left
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._forget()

    def _forget(self) -> None:
        self._record.forget_beats()
        self._record.forget_deadline()

    def _run(self) -> None:
        killed: set[int] = set()
        told: set[tuple[object, ...]] = set()
        while not self._over.wait(LOOK_S):
            deadline = self._record.deadline()
            if deadline is not None and time.monotonic() > deadline.at_s + CAP_GRACE_S:
                self._end_at(deadline.cap)
                return
            hang = self._lookout.look()
            if hang is not None and not hang.certain:
                if hang.once not in told:
                    told.add(hang.once)
                    _say("note", hang.sentence())
                continue
            if hang is not None and not hang.beat.is_here:
                if hang.once not in told:  # its number may be that of a stranger here
                    told.add(hang.once)
                    _say(
                        "error", f"{hang.sentence()}\nit runs on {hang.beat.host.split(' ')[0]}; end it there"
                    )
                continue
            if hang is None or hang.beat.pid in killed or not is_alive(hang.beat.pid):
                continue  # of a rank that died, the agent tells
            killed.add(hang.beat.pid)
            self.found = (hang.beat.rank, hang.sentence())
            _say("error", hang.sentence())
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(hang.beat.pid, signal.SIGKILL)

    def _end_at(self, cap: str) -> None:
        """End a job whose cap was reached, and say so in the place of the ranks."""
        run_dir = self._record.path
        told = RunRecord(run_dir).exit
        if told is None or told[0] != BudgetStop.exit_status:
            published = Checkpoints(run_dir).published()
            way = (
                f"the last checkpoint is {published[-1].name}" if published else "there is no checkpoint yet"
            )
            why = (
                f"{cap} is reached and the run goes on without a vote, so it was killed and nothing could be saved; "
                f"{way}. With a higher cap: {self._record.command('train --resume')}"
            )
            with contextlib.suppress(RecordError):  # on a full disk the status has to do
                write_exit(run_dir, 0, BudgetStop.exit_status, why)
            _say("error", why)
        self._end()


def _say(kind: str, sentence: str) -> None:
    sys.stderr.write(f"{kind}: {sentence}\n")
    sys.stderr.flush()


def is_alive(pid: int) -> bool:
    """Tell whether there is a process of that number on this machine, which this user may end.

    Examples:
        >>> is_alive(os.getpid()), is_alive(2**22 + 1)
        (True, False)
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return pid > 1
