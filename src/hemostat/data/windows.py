"""Which positions of the order belong to which step, rank and micro-batch: plain integer arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hemostat.config import Config
from hemostat.data.checks import check_count, check_rank, is_whole
from hemostat.errors import FieldError, TaskError


class Feed(Config, frozen=True, kw_only=True):
    """What one rank of a run must be fed.

    Attributes:
        seed: seed of the order.
        global_batch: samples in one optimizer step, over all ranks.
        total_samples: where the run ends, in samples over all ranks and epochs.
        accumulation: micro-batches in one step on one rank.
        rank: this rank, among the data-parallel ones.
        num_ranks: number of data-parallel ranks.
    """

    seed: int
    global_batch: int
    total_samples: int
    accumulation: int = 1
    rank: int = 0
    num_ranks: int = 1

    def __post_init__(self) -> None:
        """Counts are counts."""
        if not is_whole(self.seed):
            raise FieldError("seed", self.seed, "must be a whole number", "Write it like seed=0.")
        for name in ("global_batch", "total_samples", "accumulation"):
            check_count(name, getattr(self, name))
        check_rank(self.rank, self.num_ranks)

    def check(self, num_samples: int) -> None:
        """Refuse what cannot be fed. Every rank comes to the same answer, so none is left waiting.

        Raises:
            FieldError: a global batch smaller than the number of ranks.
            TaskError: fewer samples than ranks.
        """
        if num_samples < self.num_ranks:
            raise TaskError(
                f"train_data has {_counted(num_samples, 'sample')} for {self.num_ranks} ranks: each rank needs "
                f"one at least. Use {_counted(num_samples, 'rank')} at most, or more data."
            )
        if self.global_batch < self.num_ranks:
            raise FieldError(
                "global_batch",
                self.global_batch,
                f"is smaller than the number of ranks ({self.num_ranks})",
                f"Use at least {self.num_ranks}, or fewer ranks.",
            )

    def num_micro_batches(self, window_samples: int) -> int:
        """Micro-batches of one window, the same on every rank.

        A full window has `accumulation` of them. A ragged one has only as many as its samples need at the usual
        micro-batch, so that no rank computes on nothing.

        Examples:
            >>> feed = Feed(seed=0, global_batch=64, total_samples=1000, accumulation=4, num_ranks=2)
            >>> feed.num_micro_batches(64), feed.num_micro_batches(20)
            (4, 2)
        """
        largest = ceil_div(window_samples, self.num_ranks)
        if window_samples == self.global_batch:
            return min(self.accumulation, largest)
        micro_batch = ceil_div(ceil_div(self.global_batch, self.num_ranks), self.accumulation)
        return ceil_div(largest, micro_batch)


class Window(NamedTuple):
    """The samples of one optimizer step: positions `start .. stop - 1` of one epoch.

    Attributes:
        epoch: number of the epoch, from 0.
        start: first position in the epoch.
        stop: position after the last.
        position: samples consumed by all ranks once this window has been applied.
    """

    epoch: int
    start: int
    stop: int
    position: int


def windows(feed: Feed, num_samples: int, start_samples: int = 0) -> Iterator[Window]:
    """The windows from `start_samples` to the end of the run; none crosses the end of an epoch.

    Examples:
        >>> feed = Feed(seed=0, global_batch=4, total_samples=17)
        >>> [(w.epoch, w.start, w.stop) for w in windows(feed, num_samples=10)]
        [(0, 0, 4), (0, 4, 8), (0, 8, 10), (1, 0, 4), (1, 4, 7)]
    """
    position = start_samples
    while position < feed.total_samples:
        epoch, start = divmod(position, num_samples)
        full = (start // feed.global_batch + 1) * feed.global_batch
        stop = min(full, num_samples, start + feed.total_samples - position)
        position += stop - start
        yield Window(epoch, start, stop, position)


def share(num_items: int, part: int, num_parts: int) -> tuple[int, int]:
    """Bounds of one of `num_parts` contiguous, even parts of `num_items`.

    Examples:
        >>> [share(10, part, 3) for part in range(3)]
        [(0, 3), (3, 6), (6, 10)]
    """
    return num_items * part // num_parts, num_items * (part + 1) // num_parts


def _counted(num: int, noun: str) -> str:
    return f"{num} {noun}{'' if num == 1 else 's'}"


def ceil_div(number: int, divisor: int) -> int:
    """Quotient rounded up, in integers.

    Examples:
        >>> ceil_div(7, 2)
        4
    """
    return -(-number // divisor)
