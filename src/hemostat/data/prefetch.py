"""Threads that read ahead: in order, at most `depth` batches, a stuck one replaced, nothing left behind."""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from time import monotonic
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from hemostat.data.reading import READING, Cell
from hemostat.errors import EnvironmentFailure, HemostatWarning

Work = TypeVar("Work")
Item = TypeVar("Item")
MAX_STALLS: Final = 2  # on one batch; then the sample is at fault, not the moment
_JOIN_S: Final = 5.0  # a fetch that is under way when the loop ends is waited for, but not for ever


class _Cell:
    """One piece of work, from its claim to its delivery."""

    __slots__ = ("attempt", "begun_s", "done", "error", "ident", "item", "place", "ready", "work")

    def __init__(self) -> None:
        self.work: Any = None
        self.item: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.attempt = 0
        self.begun_s = monotonic()
        self.ident = 0
        self.place: Cell = [-1]
        self.ready = threading.Lock()
        self.ready.acquire()

    def begin(self) -> int:
        self.begun_s = monotonic()
        self.ident = threading.get_ident()
        self.place = READING.cell
        self.place[0] = -1
        return self.attempt


class ReadAhead(Generic[Work, Item]):
    """Runs `run` over `works` in threads; iterating hands the results over in the order of `works`.

    Args:
        works: an iterator; only one thread at a time asks it.
        run: called in a thread for each of them.
        num_threads: how many work at the same time.
        depth: results that may wait or be under way; twice the threads if left out.
        stall_s: a thread that has not answered for so long is left alone and its work is given to a new one.

    Raises:
        EnvironmentFailure: from `next`, when the same work got stuck twice.
    """

    def __init__(
        self,
        works: Iterator[Work],
        run: Callable[[Work], Item],
        num_threads: int = 1,
        depth: int | None = None,
        stall_s: float = 30.0,
    ) -> None:
        self._works = works
        self._work_on = run
        self._stall_s = stall_s
        self._lock = threading.Lock()
        self._order: SimpleQueue[_Cell] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._over = False
        self._end: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._waiting: _Cell | None = None
        for _ in range(depth or 2 * num_threads):
            self._room.put(None)
        for _ in range(num_threads):
            self._start(None)

    def _start(self, cell: _Cell | None) -> None:
        thread = threading.Thread(target=self._run, args=(cell,), name="hemostat-read-ahead", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, cell: _Cell | None) -> None:
        while True:
            item = error = None
            attempt = 0
            try:
                if cell is None:
                    self._room.get()
                    with self._lock:
                        if self._over:
                            return
                        cell = _Cell()
                        self._order.put(cell)
                        cell.work = next(self._works)
                attempt = cell.begin()
                item = self._work_on(cell.work)
            except BaseException as caught:  # noqa: BLE001 - raised again in the consumer
                error = caught
            if cell is None or not self._finish(cell, attempt, item, error) or error is not None:
                return
            cell = None

    def _finish(self, cell: _Cell, attempt: int, item: Item | None, error: BaseException | None) -> bool:
        """False where another thread has been given the same work meanwhile: then this one is not needed."""
        with self._lock:
            if cell.done or attempt != cell.attempt:
                return False
            cell.item, cell.error, cell.done = item, error, True
            self._over = self._over or error is not None
        cell.ready.release()
        return True

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._end is not None:
            raise self._end  # asked again, it answers the same
        cell = self._waiting = self._waiting or self._order.get()
        tick_s = min(1.0, self._stall_s / 4)
        while not cell.ready.acquire(timeout=tick_s):
            if monotonic() - cell.begun_s > self._stall_s:
                self._replace(cell)
        self._waiting = None
        if cell.error is not None:
            self._end = cell.error
            raise cell.error
        self._room.put(None)
        item: Item = cell.item
        return item

    def _replace(self, cell: _Cell) -> None:
        with self._lock:
            if cell.done:
                return
            cell.attempt += 1
            cell.begun_s = monotonic()
        what = stalled("a reading thread", self._stall_s, cell.place[0], _stack(cell.ident))
        if cell.attempt >= MAX_STALLS:
            self._over = True
            self._end = EnvironmentFailure(f"{what}\nIt was stuck there {cell.attempt} times. {FIX}")
            raise self._end
        # a thread cannot be killed: it stays behind, and what it may still bring is dropped
        warnings.warn(f"{what}\nA new thread reads the same batch.", HemostatWarning, stacklevel=4)
        self._start(cell)

    def close(self) -> None:
        """End the threads; a second call does nothing, and nothing is handed over any more."""
        self._over = True
        self._end = self._end or StopIteration()
        for _ in self._threads:
            self._room.put(None)
        deadline_s = monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline_s - monotonic()))
        self._threads.clear()


FIX: Final = "Mend or leave out that sample, or raise train.workers.stall_s if it may take so long."


def stalled(who: str, after_s: float, index: int, stack: str) -> str:
    """The sentence about a reader that does not answer, with its stack below."""
    where = f" at sample {index}" if index >= 0 else ""
    return f"{who} has not answered for {after_s:.3g} s{where}; it stands at\n{stack.rstrip()}"


def _stack(ident: int) -> str:
    frame: FrameType | None = sys._current_frames().get(ident)
    return "".join(traceback.format_stack(frame)[-8:]) if frame else "  (the thread is gone)"
