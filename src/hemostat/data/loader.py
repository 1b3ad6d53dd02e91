"""The loaders: micro-batches for training and for evaluation, on one rank of any number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from hemostat.data.checks import check_count, check_rank
from hemostat.data.choose import Workers
from hemostat.data.delivery import Delivery
from hemostat.data.fetch import Source
from hemostat.data.hint import hint
from hemostat.data.jobs import Job, MicroBatch
from hemostat.data.leaves import float_images
from hemostat.data.order import Order
from hemostat.data.stream import tell_of_splitting
from hemostat.data.waits import Waits
from hemostat.data.windows import Feed, Window, ceil_div, share, windows
from hemostat.errors import FieldError

# a position of the permutation cost 0.05 to 0.13 us in such blocks, 3 to 7 us by 32 (bench/data_costs.py, 2026-11-30)
BLOCK_POSITIONS: Final = 4096


class TrainLoader:
    """Micro-batches of a run from `start_samples` to its end, over as many epochs as that takes.

    The ordered global batches are the same for any number of ranks: rank r of W takes the contiguous part
    `[w*r//W, w*(r+1)//W)` of a window of w samples. Every rank yields the same number of micro-batches.
    Iterating a second time starts again at `start_samples`.

    Args:
        dataset: a data set, a DataLoader, or a `Source`.
        feed: sizes, seed and rank.
        start_samples: samples that all ranks together have consumed already.
        workers: who reads; left out, the first batches are measured.
        waits: those of an earlier loader of the run, to be added to.

    Attributes:
        waits: how long the consumer waited.
        num_samples: size of the data set.
        ships_float_images: the first batch held images as floats, four times the bytes of uint8.
        workers: who reads, as it was set.

    Raises:
        TaskError: the data set cannot be used, is empty, or has fewer samples than there are ranks.
        FieldError: a number that breaks a rule.

    Examples:
        >>> from torch.utils.data import TensorDataset
        >>> data = TensorDataset(torch.arange(10.0))
        >>> loader = TrainLoader(data, Feed(seed=0, global_batch=4, accumulation=2, total_samples=10))
        >>> [(batch.num_samples, batch.last, batch.position) for batch in loader]
        [(2, False, 4), (2, True, 4), (2, False, 8), (2, True, 8), (2, True, 10)]
    """

    def __init__(
        self,
        dataset: Any,
        feed: Feed,
        *,
        start_samples: int = 0,
        workers: Workers | None = None,
        waits: Waits | None = None,
    ) -> None:
        source = dataset if isinstance(dataset, Source) else Source(dataset, "train_data")
        feed.check(source.num_samples)
        check_count("start_samples", start_samples, 0)
        if start_samples > feed.total_samples:
            raise FieldError(
                "start_samples",
                start_samples,
                f"lies behind the end of the run, total_samples={feed.total_samples}",
                "Raise total_samples, or start earlier.",
            )
        self.source = source
        self.feed = feed
        self.start_samples = start_samples
        self.num_samples = source.num_samples
        self.waits = Waits() if waits is None else waits
        self.ships_float_images = False
        self.workers = workers or Workers()
        if feed.rank == 0 and feed.num_ranks > 1:
            tell_of_splitting(source.stream, source.role, feed.num_ranks)
        self._order = Order(source.num_samples, feed.seed)
        self._delivery = Delivery(source, feed.seed, self.workers, self.waits)

    def __iter__(self) -> Iterator[MicroBatch]:
        batches = self._delivery.batches(self._jobs())
        for first in batches:
            self.ships_float_images = float_images(first.data) is not None
            yield first
            break
        yield from batches
        self.source.check_length()  # here, since a thread plans the end while another still reads

    def close(self) -> None:
        """End the threads and processes of unfinished iterations; batches that were handed out stay valid."""
        self._delivery.close()

    def hint(self, wall_s: float) -> str:
        """The one thing to try next if a run of `wall_s` seconds has waited for these data too long, else ""."""
        return hint(self, wall_s)

    def _share(self, size: int, shares: dict[int, tuple[int, int]]) -> tuple[int, int]:
        """Samples of this rank in a window, and micro-batches; nearly all windows have one size."""
        low, high = share(size, self.feed.rank, self.feed.num_ranks)
        found = shares[size] = (high - low, self.feed.num_micro_batches(size))
        return found

    def _jobs(self) -> Iterator[Job]:
        shares: dict[int, tuple[int, int]] = {}
        for block in self._blocks():
            self.source.check_length()
            indices = torch.from_numpy(self._block_indices(block))
            used = 0
            for epoch, window_start, window_stop, position in block:
                size = window_stop - window_start
                mine, parts = shares.get(size) or self._share(size, shares)
                own = indices[used : used + max(mine, 1)]
                used += max(mine, 1)
                if parts == 1 and mine:
                    yield Job(own, epoch, mine, size, True, position)
                    continue
                for part in range(parts):
                    start, stop = share(mine, part, parts)
                    chosen = own[start:stop] if stop > start else own[:1]
                    yield Job(chosen, epoch, stop - start, size, part == parts - 1, position)

    def _blocks(self) -> Iterator[list[Window]]:
        """Runs of windows of one epoch, about `BLOCK_POSITIONS` samples of this rank; the first is short."""
        block: list[Window] = []
        held = limit = 0
        for window in windows(self.feed, self.num_samples, self.start_samples):
            if block and (held >= limit or window.epoch != block[0].epoch):
                yield block
                block, held, limit = [], 0, BLOCK_POSITIONS
            block.append(window)
            held += ceil_div(window.stop - window.start, self.feed.num_ranks)
        if block:
            yield block

    def _block_indices(self, block: list[Window]) -> NDArray[np.int64]:
        """Samples of this rank for a run of windows; one without any gives its first one, as a filler."""
        feed = self.feed
        if feed.num_ranks == 1 and not self.source.stream:
            return self._order.indices(block[0].epoch, block[0].start, block[-1].stop)
        stream = self.source.stream
        ranges = []
        for window in block:
            low, high = share(window.stop - window.start, feed.rank, feed.num_ranks)
            if stream:
                ranges.append(stream.parts.window(window.start, window.stop)[low : max(high, low + 1)])
                continue
            start, stop = (window.start + low, window.start + high) if high > low else (window.start,) * 2
            ranges.append(np.arange(start, max(stop, start + 1)))
        positions = np.concatenate(ranges)
        return positions if stream else self._order.at(block[0].epoch, positions)


class EvalLoader:
    """Every row exactly once over all ranks, in order, with the same number of batches on each rank.

    A rank that has no more rows yields fillers: one real row, `num_samples` 0. More ranks than rows are fine.
    Here a window is the i-th batch of all ranks.

    Args:
        dataset: a data set, a DataLoader, or a `Source`.
        micro_batch: rows in a batch of one rank.
        rank: this rank, among the data-parallel ones.
        num_ranks: number of data-parallel ranks.
        workers: who reads; left out, the first batches are measured.
        rows: these rows alone, without regard to ranks.

    Raises:
        TaskError: the data set cannot be used or is empty.
        FieldError: a number that breaks a rule.

    Examples:
        >>> rows = [EvalLoader([0, 1, 2, 3, 4], rank=rank, num_ranks=2, micro_batch=2) for rank in range(2)]
        >>> [[(batch.data.tolist(), batch.num_samples) for batch in rank] for rank in rows]
        [[([0, 1], 2), ([0], 0)], [([2, 3], 2), ([4], 1)]]
    """

    def __init__(
        self,
        dataset: Any,
        *,
        micro_batch: int,
        rank: int = 0,
        num_ranks: int = 1,
        workers: Workers | None = None,
        rows: range | None = None,
    ) -> None:
        self.source = dataset if isinstance(dataset, Source) else Source(dataset, "val_data")
        check_count("micro_batch", micro_batch)
        check_rank(rank, num_ranks)
        self.micro_batch = micro_batch
        self.rank = rank
        self.num_ranks = num_ranks
        self.num_samples = self.source.num_samples
        bounds = [share(self.num_samples, other, num_ranks) for other in range(num_ranks)]
        self._bounds, self._mine = (bounds, rank) if rows is None else ([(rows.start, rows.stop)], 0)
        self.waits = Waits()
        self._delivery = Delivery(self.source, 0, workers or Workers(), self.waits)

    def __len__(self) -> int:
        """Number of batches, the same on every rank."""
        return ceil_div(max(high - low for low, high in self._bounds), self.micro_batch)

    def __iter__(self) -> Iterator[MicroBatch]:
        yield from self._delivery.batches(self._jobs())
        self.source.check_length()

    def close(self) -> None:
        """End the threads and processes of unfinished iterations; batches that were handed out stay valid."""
        self._delivery.close()

    def _jobs(self) -> Iterator[Job]:
        sizes = [high - low for low, high in self._bounds]
        low, high = self._bounds[self._mine]
        filler = torch.tensor([low])
        position = 0
        self.source.check_length()
        for number in range(len(self)):
            done = number * self.micro_batch
            over_all = sum(max(0, min(self.micro_batch, size - done)) for size in sizes)
            position += over_all
            start, stop = low + done, min(low + done + self.micro_batch, high)
            indices = torch.arange(start, stop) if stop > start else filler
            yield Job(indices, 0, max(0, stop - start), over_all, number == len(self) - 1, position)
