"""Waits for a child and hands signals on to it: the first one politely, the second one for good."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Relay:
    """While inside, SIGINT, SIGTERM and SIGHUP go to the child instead of ending this process.

    The child must lead a session of its own (`start_new_session=True`); otherwise Ctrl-C in a terminal would
    reach it twice, once from the terminal and once from here. Outside of the main thread, where Python allows
    no handlers, nothing is handed on.

    Attributes:
        received: the signals that came, in order.
    """

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._child: subprocess.Popen[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Relay:
        if threading.current_thread() is threading.main_thread():
            # a signal that is ignored (nohup ignores SIGHUP) stays ignored
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, child: subprocess.Popen[Any]) -> int:
        """Wait for the child to end, then end whatever it left in its session.

        Returns:
            Its exit status, or minus the number of the signal that killed it.
        """
        self._child = child
        if self.received:  # it came before there was a child
            self._pass(self.received[0])
        # WNOWAIT keeps the ended child's number taken until its group has been cleared
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self._kill()
        self._child = None  # its number may be given to another one
        return child.wait()

    def end(self) -> None:
        """Kill the child and what it has started, if it runs."""
        self._kill()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received.append(signal.Signals(number))
        if self._child is None:
            return
        if len(self.received) == 1:
            self._pass(self.received[0])
        else:
            self._kill()

    def _pass(self, number: signal.Signals) -> None:
        # a closed terminal means the same as a polite request to end
        polite = signal.SIGTERM if number is signal.SIGHUP else number
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, polite)

    def _kill(self) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
