"""Whether two reads of a sample are equal, and reads that are, for data that draw from the global generators."""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec
from torch import Tensor

from hemostat.data import Source, TrainLoader, Workers
from hemostat.train.guards import same_leaves
from hemostat.train.process import seed_everything
from hemostat.train.rng import generators_kept
from hemostat.train.session import Session

READ_TWICE: Final = 8  # a flip at p = 0.5 is missed once in 2^8 = 256 starts
_HERE: Final = Workers(mode="none")  # the global generators belong to this thread alone


def random_reads(session: Session) -> str:
    """A sentence if two reads of the same samples differ, else empty; the same on all ranks.

    The first 8 samples of the run are read twice on each rank, one by one in time, so the start is longer by 16
    reads. Streams are read only where `self_check` has to know, because many fill a buffer first.

    Args:
        session: freshly opened. Its random state stays as it is.
    """
    source = session.loader.source
    if source.stream and session.world.num_ranks == 1 and session.recipe.accumulation == 1:
        return ""
    num = min(READ_TWICE, source.num_samples)
    loader = reader(session, source, num=num)
    with generators_kept(session.world.device):
        first, second = (next(iter(loader)).data for _ in range(2))
    if not session.world.sum([float(not same_leaves(first, second))])[0]:
        return ""
    if source.stream:
        return (
            "two reads of the same items of train_data differ, so a resumed run sees other data. Seed the stream, and "
            "let set_epoch(epoch) change the seed."
        )
    return (
        "two reads of the same samples of train_data differ, so a resumed run sees other data. Draw from "
        "hemostat.data.sample_rng(index), not from random, numpy.random or torch."
    )


def reader(
    session: Session, source: Source, *, num: int, rank: int = 0, num_ranks: int = 1, accumulation: int = 1
) -> TrainLoader:
    """One rank's share of the first `num` samples of the run as one window, read in this thread."""
    feed = msgspec.structs.replace(
        session.loader.feed,
        rank=rank,
        num_ranks=num_ranks,
        accumulation=accumulation,
        global_batch=num,
        total_samples=num,
    )
    return TrainLoader(source, feed, workers=_HERE)


def seeded(source: Source) -> Source:
    """The same samples with the global generators seeded before each, so that it is the same in any batch.

    Read it in one thread, inside of `generators_kept`. A stream stays as it is.
    """
    if source.stream:
        return source
    twin = copy.copy(source)
    twin.fetch = lambda indices: _one_by_one(source, indices)
    return twin


def _one_by_one(source: Source, indices: Tensor) -> Any:
    dataset: Any = source.dataset
    many = getattr(dataset, "__getitems__", None)
    samples, wanted = [], indices.tolist()
    for index in wanted:
        seed_everything(index)
        got = many([index]) if callable(many) else [dataset[index]]
        if not isinstance(got, list):
            return source.fetch(indices)  # it makes the batch itself, in one go
        samples += got
    return source.collate(samples, wanted)
