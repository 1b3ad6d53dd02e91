"""Signals become a flag that the control vote carries, so that all ranks leave at the same step."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from hemostat.errors import BudgetStop, Interrupted
from hemostat.track import Checkpoints, RunRecord
from hemostat.train.pulse import Pulse
from hemostat.train.spot import SpotWatch


class Leaving(KeyboardInterrupt):
    """Ends a wait of the training thread at once; the other ranks wait for this one, so nothing can be saved.

    No data set catches this kind of error, and the session makes a `HemostatError` of it.

    Args:
        why: one sentence.
        status: exit status.
    """

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


class Interrupt:
    """Remembers SIGINT and SIGTERM; a second SIGINT does what Python would have done at the first.

    Args:
        pulse: of this rank; None for one that never waits.
        grace_s: how long a wait for training data may go on after a signal.
        notices: looks for what a cloud says of this machine; None where nobody is asked.

    Attributes:
        name: the signal that came ("SIGTERM"), the notice of a cloud, or an empty text.
    """

    def __init__(
        self, pulse: Pulse | None = None, grace_s: float = 20.0, notices: SpotWatch | None = None
    ) -> None:
        self.name = ""
        self._pulse = pulse or Pulse()
        self._grace_s = grace_s
        self._notices = notices
        self._came_s = 0.0
        self._by: tuple[float, str] | None = None
        self._asked = self._has_left = False
        self._before: dict[int, object] = {}

    def install(self) -> None:
        """Start listening; only the main thread may, others are left alone."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        if self._notices is not None:
            self._notices.start(self.take)

    def take(self, name: str) -> None:
        """Note what is to end the run; the first one counts."""
        if not self.name:
            self._came_s = time.monotonic()
            self.name = name

    def leave_by(self, at_s: float, cap: str) -> None:
        """Leave where this rank stands when a cap is reached.

        Args:
            at_s: on the clock of `time.monotonic`.
            cap: as the user wrote it.
        """
        self._by = (at_s, cap)

    def overdue(self) -> Leaving | None:
        """What must end the wait of the training thread now.

        A cap is reached, and no vote has ended the run; what comes before the first step looks by itself. Or a signal
        came, and for `grace_s` since then this rank has only waited for data.
        """
        at, now_s = self._pulse.at, time.monotonic()
        if not self._before or self._has_left:
            return None
        if self._by is not None and now_s > self._by[0] and at.phase not in ("start", "save"):
            return Leaving(
                f"{self._by[1]} is reached in {at.phase} after step {at.step}, where nothing can be saved"
                f"{self._way_back()}",
                BudgetStop.exit_status,
            )
        if self.name and at.phase == "data" and now_s - max(at.since_s, self._came_s) > self._grace_s:
            return Leaving(
                f"{self.name}, and the data of step {at.step + 1} did not come within {self._grace_s:g} s"
                f"{self._way_back()}",
                Interrupted.exit_status,
            )
        return None

    def end_wait(self, thread: int) -> None:
        """Let the training thread look at `overdue`; it takes a real signal to end a wait.

        Args:
            thread: its number.
        """
        self._asked = True
        signal.pthread_kill(thread, signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        asked, self._asked = self._asked, False
        leaving = self.overdue()
        if leaving is not None:
            self._has_left = True
            raise leaving
        if asked:
            return
        if self.name and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.take(signal.Signals(number).name)

    def _way_back(self) -> str:
        run_dir = self._pulse.run_dir
        published = Checkpoints(run_dir).published() if run_dir else []
        if not run_dir or not published:
            return "; there is no checkpoint yet"
        go_on = RunRecord(run_dir).command("train --resume")
        return f"; the last checkpoint is {published[-1].name}, go on with: {go_on}"

    def remove(self) -> None:
        """Give the signals back to who had them."""
        if self._notices is not None:
            self._notices.close()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()
