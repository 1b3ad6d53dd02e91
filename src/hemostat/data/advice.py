"""What would make reading faster: each way in its order, with the gain measured on the data at hand."""

from __future__ import annotations

from collections.abc import Iterator
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
_MOST_SAMPLES: Final = 4096


class Report(NamedTuple):
    """What was found.

    Attributes:
        fetch_s: seconds for one batch in one thread, the second time its samples are read.
        advice: the ways that help, and those that could not be measured, in the order of docs/data.md.
        no_gain: the ways that bring nothing here, with the reason.
    """

    fetch_s: float
    advice: tuple[Advice, ...]
    no_gain: tuple[Advice, ...]


def advise(source: Source, micro_batch: int) -> Report:
    """Measure each way on the first samples of a data set; about a second each.

    Args:
        source: the data.
        micro_batch: samples in one batch of one rank.
    """
    micro_batch = min(micro_batch, source.num_samples)
    first_s, _ = _read(source, micro_batch)
    fetch_s, batch = _read(source, micro_batch)
    subject = Subject(source, micro_batch, first_s, fetch_s, batch, BUDGET_S)
    found = (
        batch_fetch(subject),
        uint8(subject),
        *modes(subject),
        depth(subject),
        pinning(subject),
        stored_copy(subject),
        shards(subject),
        cache(subject),
    )
    helps = tuple(way for way in found if way.applies and (way.gain is None or way.gain >= HELPS))
    return Report(fetch_s, helps, tuple(way for way in found if way not in helps))


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
