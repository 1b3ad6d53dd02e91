"""Signals become a flag that the control vote carries, so that all ranks leave at the same step."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class Interrupt:
    """Remembers SIGINT and SIGTERM; a second SIGINT does what Python would have done at the first.

    Attributes:
        name: the signal that came ("SIGTERM"), or an empty text.
    """

    def __init__(self) -> None:
        self.name = ""
        self._before: dict[int, object] = {}

    def install(self) -> None:
        """Start listening; only the main thread may, others are left alone."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.name and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.name = signal.Signals(number).name

    def remove(self) -> None:
        """Give the signals back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()
