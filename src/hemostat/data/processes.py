"""Worker processes: batches in order through shared memory, a dead or stuck worker replaced at the same batch."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import tempfile
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from mmap import mmap
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from time import monotonic, sleep
from typing import Any, Final

import numpy as np

from hemostat.data.fetch import Source
from hemostat.data.jobs import Job, MicroBatch
from hemostat.data.prefetch import FIX, MAX_STALLS, stalled
from hemostat.data.ring import Ring
from hemostat.data.worker import Answer, Desk, Request, serve
from hemostat.errors import EnvironmentFailure, HemostatWarning, TaskError

_SPARE_SLOTS: Final = 2  # held by the consumer; from there on batches are copied out
_DUMP_S: Final = 0.5
_LEAVE_S: Final = 0.2
_MIN_SLOT_BYTES: Final = 1 << 16


class _Task:
    """One batch, from its request to its delivery."""

    __slots__ = ("answer", "attempts", "job", "number", "ring", "sent_s", "slot")

    def __init__(self, number: int, job: Job) -> None:
        self.number = number
        self.job = job
        self.answer: Answer | None = None
        self.attempts = 0
        self.ring: Ring
        self.slot = -1
        self.sent_s = 0.0


class _Worker:
    """One process, its pipe, and the file where its stack appears on SIGUSR1."""

    def __init__(self, place: int, ring: Ring, source: Source, seed: int, cell: memoryview[int]) -> None:
        self.place = place
        self.cell = cell
        self.tasks: deque[_Task] = deque()
        self.heard_s = monotonic()
        self.dump = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        desk = Desk(theirs, ring, source, seed, cell, self.dump.fileno(), os.getpid())
        self.process: BaseProcess = context.Process(target=serve, args=(desk,), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: the child touches none
            self.process.start()
        theirs.close()

    def stack(self) -> str:
        """Ask a living worker where it stands, or read what a dying one has left."""
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGUSR1)
            deadline_s, size = monotonic() + _DUMP_S, -1
            while monotonic() < deadline_s and (size <= 0 or os.fstat(self.dump.fileno()).st_size != size):
                size = os.fstat(self.dump.fileno()).st_size
                sleep(0.02)
        text = os.pread(self.dump.fileno(), 1 << 14, 0).decode(errors="replace")
        return text or "  (it left no stack)"

    def end(self) -> None:
        """Kill it, whatever it does; SIGKILL cannot be refused, but a process in the disk may take its time."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join(1.0)
        self.pipe.close()
        self.dump.close()


class Processes:
    """Fetches `jobs` in worker processes and hands the micro-batches over in order.

    The parent asks and watches while it waits, so there is no thread beside the processes.

    Args:
        jobs: an iterator; it is asked in the parent only.
        source: the data set; the workers inherit it by fork.
        seed: of the loader, for `sample_rng`.
        num_workers: how many processes.
        slot_bytes: expected size of a batch; a larger one restarts the workers with larger slots.
        stall_s: a worker that has not answered for so long is named, killed and replaced.

    Raises:
        EnvironmentFailure: from `next`, when one batch has cost two workers.
        TaskError: from `next`, what the data set raised.
    """

    def __init__(
        self,
        jobs: Iterator[Job],
        source: Source,
        seed: int,
        num_workers: int,
        slot_bytes: int,
        stall_s: float,
    ) -> None:
        self._jobs = jobs
        self._source = source
        self._seed = seed
        self._stall_s = stall_s
        self._tasks: deque[_Task] = deque()
        self._num_sent = 0
        self._num_workers = num_workers
        self._cells = memoryview(mmap(-1, 8 * num_workers)).cast("q")
        self._workers: list[_Worker] = []
        self._end: BaseException | None = None
        self.num_restarts = 0
        _OPEN.add(self)
        self._open(slot_bytes)

    def _open(self, slot_bytes: int) -> None:
        self._ring = Ring(3 * self._num_workers + _SPARE_SLOTS, max(slot_bytes, _MIN_SLOT_BYTES))
        for place in range(self._num_workers):
            self._workers.append(self._new_worker(place))

    def _new_worker(self, place: int) -> _Worker:
        cell = self._cells[place : place + 1]
        cell[0] = -1
        return _Worker(place, self._ring, self._source, self._seed, cell)

    def __iter__(self) -> Iterator[tuple[MicroBatch, float]]:
        return self

    def __next__(self) -> tuple[MicroBatch, float]:
        self._fill()
        if not self._tasks:
            raise self._end if self._end is not None else StopIteration
        head = self._tasks[0]
        while head.answer is None:
            self._listen(head)
        self._tasks.popleft()
        if head.answer.error is not None:
            text, trace, ours = head.answer.error
            self._end = TaskError(text) if ours else EnvironmentFailure(f"a data worker raised {text}")
            self._end.add_note(f"In the worker:\n{trace}")
            self._tasks.clear()
            raise self._end
        data = head.ring.take(head.slot, head.answer.spec or (0, 0), head.ring.num_lent >= _SPARE_SLOTS)
        self._fill()
        return head.job.filled(data), head.answer.fetch_s

    def _fill(self) -> None:
        """Give every worker two batches to do, as long as there are slots."""
        limit = 3 * self._num_workers
        while self._end is None and len(self._tasks) < limit and self._ring.free:
            worker = min(self._workers, key=lambda each: len(each.tasks))
            if len(worker.tasks) >= 2:
                return
            job = next(self._jobs, None)
            if job is None:
                self._end = StopIteration()
                return
            self._num_sent += 1
            task = _Task(self._num_sent, job)
            self._tasks.append(task)
            if 8 * len(job.indices) > self._ring.slot_bytes:
                worker.tasks.append(task)
                self._grow(8 * len(job.indices))
            else:
                self._send(worker, task)

    def _send(self, worker: _Worker, task: _Task) -> None:
        if task.slot < 0 or task.ring is not self._ring:
            task.ring, task.slot = self._ring, self._ring.free.popleft()
        indices = task.job.indices.numpy()
        task.ring.slot(task.slot)[: indices.nbytes] = indices.view(np.uint8)
        task.sent_s = monotonic()
        if task not in worker.tasks:
            worker.tasks.append(task)
        request = Request(task.number, task.slot, len(indices), task.job.epoch)
        with suppress(BrokenPipeError):  # it has just died; `_listen` sees that and sends again
            worker.pipe.send(request)

    def _listen(self, head: _Task) -> None:
        """Read what has come; look after the worker that owes the next batch."""
        tick_s = min(1.0, self._stall_s / 4)
        doors: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        for door in wait(list(doors), tick_s):
            worker = doors[door]
            try:
                answer: Answer = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                self._replace(worker, "has died")
                return
            worker.heard_s = monotonic()
            task = worker.tasks.popleft()
            if answer.needed_bytes:
                worker.tasks.appendleft(task)
                self._grow(answer.needed_bytes)
                return
            task.answer = answer
        if head.answer is None:
            owing = next(worker for worker in self._workers if head in worker.tasks)
            if monotonic() - max(head.sent_s, owing.heard_s) > self._stall_s:
                self._replace(owing, "")

    def _replace(self, worker: _Worker, died: str) -> None:
        """A new process does what the old one owed, from the same batch on."""
        stack, index = worker.stack(), worker.cell[0]
        worker.end()
        who = f"data worker {worker.place} (process {worker.process.pid})"
        if died:
            code = worker.process.exitcode
            where = f" at sample {index}" if index >= 0 else ""
            what = f"{who} {died}{where} (exit code {code}); it stood at\n{stack.rstrip()}"
        else:
            what = stalled(who, self._stall_s, index, stack)
        tasks = list(worker.tasks)
        if tasks:
            tasks[0].attempts += 1
        if tasks and tasks[0].attempts >= MAX_STALLS:
            fix = _after_death(worker.process.exitcode) if died else FIX
            self._end = EnvironmentFailure(f"{what}\nThat batch has cost {tasks[0].attempts} workers. {fix}")
            self._tasks.clear()
            raise self._end
        self.num_restarts += 1
        warnings.warn(f"{what}\nA new worker reads the same batch.", HemostatWarning, stacklevel=5)
        new = self._workers[worker.place] = self._new_worker(worker.place)
        for task in tasks:
            self._send(new, task)

    def _grow(self, needed_bytes: int) -> None:
        """Start again with slots twice as large as needed; what is ready stays in the old ring."""
        owed = [list(worker.tasks) for worker in self._workers]
        self._dismiss()
        self._open(2 * needed_bytes)
        for worker, tasks in zip(self._workers, owed, strict=True):
            for task in tasks:
                self._send(worker, task)

    def _dismiss(self) -> None:
        for worker in self._workers:
            with suppress(OSError):  # gone already
                worker.pipe.send(None)
        deadline_s = monotonic() + _LEAVE_S
        for worker in self._workers:
            worker.process.join(max(0.0, deadline_s - monotonic()))
            worker.end()
        self._workers.clear()

    def close(self) -> None:
        """End the processes; a second call does nothing. Batches that were handed out stay valid."""
        self._end = self._end or StopIteration()
        self._tasks.clear()
        self._dismiss()


def _after_death(exitcode: int | None) -> str:
    """What to do about a sample that has killed its readers."""
    if exitcode == -signal.SIGKILL:
        return "SIGKILL often means that memory ran out: lower train.workers.num, or leave out that sample."
    if exitcode == -signal.SIGBUS:
        return "SIGBUS often means that a memory-mapped file was shortened: write it again."
    return "Mend or leave out that sample."


_OPEN: weakref.WeakSet[Processes] = weakref.WeakSet()


@atexit.register  # before multiprocessing's own, which would wait for workers that ignore SIGTERM
def _close_all() -> None:
    for pool in list(_OPEN):
        pool.close()
