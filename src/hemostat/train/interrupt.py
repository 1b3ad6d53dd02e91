"""Signals become a flag that the control vote carries, so that all ranks leave at the same step."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from hemostat.track import Checkpoints
from hemostat.train.pulse import Pulse


class Interrupt:
    """Remembers SIGINT and SIGTERM; a second SIGINT does what Python would have done at the first.

    Args:
        pulse: of this rank; None for one that never waits.
        grace_s: how long a wait for training data may go on after a signal.

    Attributes:
        name: the signal that came ("SIGTERM"), or an empty text.
    """

    def __init__(self, pulse: Pulse | None = None, grace_s: float = 20.0) -> None:
        self.name = ""
        self._pulse = pulse or Pulse()
        self._grace_s = grace_s
        self._came_s = 0.0
        self._before: dict[int, object] = {}

    def install(self) -> None:
        """Start listening; only the main thread may, others are left alone."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)

    def is_overdue(self) -> bool:
        """A signal came, and for `grace_s` since then this rank has only waited for data; signal it once more."""
        at = self._pulse.at
        if not self.name or not self._before or at.phase != "data":
            return False
        return time.monotonic() - max(at.since_s, self._came_s) > self._grace_s

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_overdue():
            # the other ranks wait for this one, so nothing can be saved now; no data set catches this kind of error,
            # and the session makes an Interrupted of it
            raise KeyboardInterrupt(
                f"{self.name}, and the data of step {self._pulse.at.step + 1} did not come within {self._grace_s:g} s"
                f"{self._way_back()}"
            )
        if self.name and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.name:
            self._came_s = time.monotonic()
            self.name = signal.Signals(number).name

    def _way_back(self) -> str:
        run_dir = self._pulse.run_dir
        published = Checkpoints(run_dir).published() if run_dir else []
        if not run_dir or not published:
            return "; there is no checkpoint yet"
        return f"; the last checkpoint is {published[-1].name}, go on with: hemostat train --resume {run_dir.name}"

    def remove(self) -> None:
        """Give the signals back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()
