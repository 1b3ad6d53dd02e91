"""From planned batches to fetched ones: in this thread, in threads or in processes, measured at the start."""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch

from hemostat.data.choose import (
    Choice,
    Measured,
    Workers,
    choose,
    fork_fault,
    is_cheap,
    may_fork,
    open_handle,
    readers_allowed,
)
from hemostat.data.fetch import Source
from hemostat.data.jobs import Job, MicroBatch
from hemostat.data.prefetch import ReadAhead
from hemostat.data.processes import Processes
from hemostat.data.reading import READING
from hemostat.data.ring import num_bytes
from hemostat.data.waits import Waits
from hemostat.errors import FieldError, HemostatError

PROBE_FETCHES: Final = 8
PROBE_S: Final = 0.5  # for reading in this thread, and again for reading with two
_STALL_S: Final = 30.0
_STALL_FETCHES: Final = 20


class Delivery:
    """Delivers the jobs of one loader; what was chosen stays with the source, for its next loader.

    Args:
        source: where the samples come from.
        seed: for `sample_rng`.
        workers: who reads; None in its `mode` measures.
        waits: where the times are added up.
    """

    def __init__(self, source: Source, seed: int, workers: Workers, waits: Waits) -> None:
        workers.check_fork()
        self._source = source
        self._fetch = source.reader()
        self._seed = seed
        self._workers = workers
        self._waits = waits
        self._pools: list[ReadAhead[Job, tuple[MicroBatch, float]] | Processes] = []
        self._fetch_s = 0.0
        self._slot_bytes = 0

    def batches(self, jobs: Iterator[Job]) -> Iterator[MicroBatch]:
        """The micro-batches of `jobs`, in order."""
        self._fetch = self._source.reader()
        choice = self._choice()
        if choice is None:
            yield from self._probe(jobs)
            choice = self._choice()
            if choice is None:
                return  # it ended before there was a choice to make
        if choice.mode == "none":
            yield from self._here(jobs)
            return
        pool = self._pool(choice, jobs)
        self._pools.append(pool)
        waits = self._waits
        try:
            while True:
                asked = perf_counter()
                try:
                    made = next(pool, None)
                except HemostatError:  # a stall ends the run: it is most of what was waited for
                    waits.add(perf_counter() - asked, 0.0)
                    raise
                if made is None:
                    return
                waits.add(perf_counter() - asked, made[1])
                yield made[0]
        finally:
            pool.close()
            if pool in self._pools:
                self._pools.remove(pool)

    def close(self) -> None:
        """End all threads and processes of iterations that were left unfinished."""
        while self._pools:
            self._pools.pop().close()

    def _choice(self) -> Choice | None:
        mode, num = self._workers.mode, self._workers.num
        if mode is not None:
            self._workers.check_fork()  # again: a device may be in use since the loader was made
            if self._source.stream and mode == "processes":
                raise FieldError(
                    "train.workers.mode", mode, "cannot read a stream", "Use threads; one of them reads."
                )
            return Choice(mode, 1 if self._source.stream else num or readers_allowed(), "as set")
        found = self._source.choice
        if found is not None and found.mode == "processes" and fork_fault():
            return None  # chosen before a device was in use: look again
        if found is None or num is None or self._source.stream:
            return found
        return found._replace(num=num)

    def _here(self, jobs: Iterable[Job]) -> Iterator[MicroBatch]:
        fetch, add, reading, clock = self._fetch, self._waits.add, READING, perf_counter
        asked = clock()
        for job in jobs:
            reading.seed, reading.epoch = self._seed, job[1]  # another loader may have read meanwhile
            began = clock()
            batch = MicroBatch(fetch(job[0]), job[2], job[3], job[4], job[5])
            ended = clock()
            add(ended - asked, ended - began)
            yield batch
            asked = clock()

    def _run(self, job: Job) -> tuple[MicroBatch, float]:
        READING.seed, READING.epoch = self._seed, job.epoch
        began = perf_counter()
        data = self._fetch(job.indices)
        return job.filled(data), perf_counter() - began

    def _pool(
        self, choice: Choice, jobs: Iterator[Job]
    ) -> ReadAhead[Job, tuple[MicroBatch, float]] | Processes:
        stall_s = self._workers.stall_s or max(_STALL_S, _STALL_FETCHES * self._fetch_s)
        if choice.mode == "threads":
            return ReadAhead(jobs, self._run, choice.num, self._workers.depth, stall_s)
        return Processes(jobs, self._source, self._seed, choice.num, 2 * self._slot_bytes, stall_s)

    def _probe(self, jobs: Iterator[Job]) -> Iterator[MicroBatch]:
        """Deliver the first batches from here; then read them again with two threads, and choose."""
        costs: list[float] = []
        steps: list[float] = []
        kept: list[tuple[Job, int]] = []
        while len(costs) < PROBE_FETCHES and (sum(costs) < PROBE_S or len(costs) < 2):
            asked = perf_counter()
            job = next(jobs, None)
            if job is None:
                return
            batch, fetch_s = self._run(job)
            costs.append(fetch_s)
            kept.append((job, checksum(batch.data)))
            self._slot_bytes = max(self._slot_bytes, num_bytes(batch.data) if fetch_s > 1e-3 else 0)
            given = perf_counter()
            self._waits.add(given - asked, fetch_s)
            yield batch
            steps.append(perf_counter() - given)
        self._fetch_s = statistics.median(costs)
        seen = Measured(self._fetch_s, statistics.median(steps), no_fork=fork_fault())
        handle = "it is a stream" if self._source.stream else open_handle(self._source.dataset)
        if not is_cheap(seen) and not handle:
            began = perf_counter()
            seen = self._with_two(seen, kept, sum(costs))
            if may_fork(seen):
                seen = seen._replace(forked=self._with_processes(kept, sum(costs), seen.repeats))
            self._waits.wait_s += perf_counter() - began
        self._source.choice = choose(seen._replace(handle=handle or seen.handle), readers_allowed())

    def _with_two(self, seen: Measured, kept: list[tuple[Job, int]], alone_s: float) -> Measured:
        """Read the same batches with two threads: how much faster, and whether they came out equal.

        Where they did not, they are read here once more: equal now, it was the second thread that spoilt them.
        """
        pool = ReadAhead(iter([job for job, _ in kept]), self._run, num_threads=2, depth=len(kept))
        began = perf_counter()
        try:
            found = [checksum(batch.data) for batch, _ in pool]
        except HemostatError as error:  # it was read well by one thread a moment ago
            return seen._replace(handle=f"two threads at once fail ({str(error).splitlines()[0]})")
        finally:
            pool.close()
        gain = alone_s / (perf_counter() - began)
        told = [before for _, before in kept]
        if found == told:
            return seen._replace(gain=gain)
        if [checksum(self._run(job)[0].data) for job, _ in kept] == told:
            return seen._replace(gain=gain, handle="two threads at once get other values")
        return seen._replace(gain=gain, repeats=False)

    def _with_processes(self, kept: list[tuple[Job, int]], alone_s: float, repeats: bool) -> float:
        """Throughput of two processes over that of this thread, without their start; 0 where they cannot read."""
        jobs = iter([job for job, _ in kept])
        pool = Processes(jobs, self._source, self._seed, 2, 2 * self._slot_bytes, _STALL_S)
        try:
            found = [checksum(next(pool)[0].data)]
            began = perf_counter()
            found += [checksum(batch.data) for batch, _ in pool]
            spent_s = perf_counter() - began
        except HemostatError:  # it was read well here a moment ago
            return 0.0
        finally:
            pool.close()
        if repeats and found != [before for _, before in kept]:
            return 0.0
        # the second of the pair was under way when the first came
        return max(1, len(kept) - 2) / max(spent_s, 1e-9) * alone_s / len(kept)


def checksum(tree: Any) -> int:
    """A number that tells two readings of the same samples apart; only tensors and arrays count."""
    if isinstance(tree, torch.Tensor):
        tree = tree.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    if isinstance(tree, np.ndarray):
        return 0 if tree.dtype.hasobject else zlib.crc32(np.ascontiguousarray(tree).tobytes())
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return hash(tuple(map(checksum, tree)))
    return 0
