"""Watches the heart-beats of a job's ranks: a rank that keeps the others waiting is named, then killed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType

from hemostat.track import RunRecord

LOOK_S = 0.5


class HangWatch:
    """While inside, a thread looks for a rank that hangs.

    The rank is killed: the others lose it and end as they do after any death, and with restarts all begin again.
    It works for ranks of this machine that beat; others are not watched.

    Args:
        run_dir: the run directory.

    Attributes:
        found: rank and sentence of the last hang, or None.
    """

    def __init__(self, run_dir: Path) -> None:
        self.found: tuple[int, str] | None = None
        self._record = RunRecord(run_dir)
        self._lookout = self._record.lookout()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hemostat-hang-watch", daemon=True)

    def __enter__(self) -> HangWatch:
        self._record.forget_beats()  # of an earlier launch that was killed itself
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._record.forget_beats()

    def _run(self) -> None:
        killed: set[int] = set()
        while not self._over.wait(LOOK_S):
            hang = self._lookout.look()
            if hang is None or hang.beat.pid in killed or not is_alive(hang.beat.pid):
                continue  # of a rank that died, the agent tells
            killed.add(hang.beat.pid)
            self.found = (hang.beat.rank, hang.sentence())
            sys.stderr.write(f"error: {hang.sentence()}\n")
            sys.stderr.flush()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(hang.beat.pid, signal.SIGKILL)


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
