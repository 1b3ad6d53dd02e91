"""One thread that reads ahead, at most `depth` batches, and leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")
_JOIN_S: Final = 5.0  # a fetch that is under way when the loop ends is waited for, but not for ever


class ReadAhead(Generic[Item]):
    """Runs an iterator in a thread; `get` hands its items over in order.

    Args:
        make: called in the thread for each item; raises StopIteration at the end.
        depth: items that may wait.
    """

    def __init__(self, make: Callable[[], Item], depth: int = 2) -> None:
        self._make = make
        self._slots = threading.Semaphore(depth)
        self._ready: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="hemostat-read-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._slots.acquire()
            if self._closing:
                return
            try:
                item = self._make()
            except BaseException as error:  # noqa: BLE001 - raised again in the consumer
                self._ready.put((None, error))
                return
            self._ready.put((item, None))

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        item, error = self._ready.get()
        if error is not None:
            self._ready.put((None, error))  # asked again, it answers the same
            raise error
        self._slots.release()
        return item  # type: ignore[return-value]  # None only beside an error

    def close(self) -> None:
        """End the thread; a second call does nothing."""
        self._closing = True
        self._slots.release()
        self._thread.join(_JOIN_S)
