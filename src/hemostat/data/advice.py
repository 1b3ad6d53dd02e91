"""What would make reading faster: each way in its order, with the gain measured on the data at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from hemostat.data.fetch import Source
from hemostat.data.probing import Advice, Subject
from hemostat.data.ways_to_read import batch_fetch, depth, modes, pinning, uint8
from hemostat.data.ways_to_store import cache, shards, stored_copy

BUDGET_S: Final = 1.0  # for each way
HELPS: Final = 1.1  # less is within the noise of a machine that does other work too
_BATCH_SHARE: Final = 0.05  # of the budget; where a batch takes longer, a smaller one is measured
_MOST_SAMPLES: Final = 4096


class Report(NamedTuple):
    """What was found.

    Attributes:
        micro_batch: samples in the batches that were measured; fewer than asked for where they are slow to read.
        fetch_s: seconds for one batch in one thread, the second time its samples are read.
        advice: the ways that help, and those that could not be measured, in the order of docs/data.md.
        no_gain: the ways that bring nothing here, with the reason.
    """

    micro_batch: int
    fetch_s: float
    advice: tuple[Advice, ...] = ()
    no_gain: tuple[Advice, ...] = ()

    def with_way(self, way: Advice) -> Report:
        """One way more, among those that help or the others."""
        if way.applies and (way.gain is None or way.gain >= HELPS):
            return self._replace(advice=(*self.advice, way))
        return self._replace(no_gain=(*self.no_gain, way))


def advise(source: Source, micro_batch: int, tell: Callable[[Report], None] | None = None) -> Report:
    """Measure each way on the first samples of a data set; about a second each, a few where one sample takes long.

    Args:
        source: the data.
        micro_batch: samples in one batch of one rank.
        tell: called with what is known so far, once the data were read and after each way.
    """
    tell = tell or (lambda report: None)
    micro_batch = _fitting(source, min(micro_batch, source.num_samples))
    first_s, _ = _read(source, micro_batch)
    fetch_s, batch = _read(source, micro_batch)
    subject = Subject(source, micro_batch, first_s, fetch_s, batch, BUDGET_S)
    report = Report(micro_batch, fetch_s)
    tell(report)
    for way in _ways(subject):
        report = report.with_way(way)
        tell(report)
    return report


def _ways(subject: Subject) -> Iterator[Advice]:
    yield batch_fetch(subject)
    yield uint8(subject)
    yield from modes(subject)
    yield depth(subject)
    yield pinning(subject)
    yield stored_copy(subject)
    yield shards(subject)
    yield cache(subject)


def _fitting(source: Source, micro_batch: int) -> int:
    """The largest of 1, 2, 4 ... and `micro_batch` samples that one way can read some twenty times."""
    fetch, size = source.reader(), 1
    while size < micro_batch:
        first = (
            0 if source.stream else source.num_samples - size
        )  # the others stay unread until they are timed
        began = perf_counter()
        fetch(torch.arange(first, first + size))
        if perf_counter() - began > _BATCH_SHARE * BUDGET_S:
            return size
        size *= 2
    return micro_batch


def _batches(source: Source, micro_batch: int) -> Iterator[Tensor]:
    num = min(source.num_samples, _MOST_SAMPLES) // micro_batch
    return (torch.arange(k * micro_batch, (k + 1) * micro_batch) for k in range(max(1, num)))


def _read(source: Source, micro_batch: int) -> tuple[float, Any]:
    """Mean seconds of a batch, and the last one."""
    fetch = source.reader()
    began, count, batch = perf_counter(), 0, None
    for indices in _batches(source, micro_batch):
        batch = fetch(indices)
        count += 1
        if perf_counter() - began > BUDGET_S:
            break
    return (perf_counter() - began) / count, batch
