"""Data that can only be read from front to back: every rank reads all of it and keeps its share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from torch import Tensor

from hemostat.data.reading import READING
from hemostat.errors import FieldError, TaskError


class Stream:
    """Iterable data of a known length.

    Position p of an epoch is the p-th item. There is no order but that of the stream: shuffle in it. In epoch e
    `set_epoch(e)` is called on the data where they have it. Each rank reads the whole stream and keeps its share,
    so that the global batches are the same for any number of ranks; data that split themselves by rank would lose
    samples here.

    Args:
        items: anything that gives a fresh iterator each time, such as an IterableDataset.
        num_samples: items in one epoch; the rest is not read.

    Raises:
        FieldError: no samples.
        TaskError: a generator (it can be read once only), or data that are split by rank already.
    """

    def __init__(self, items: Iterable[Any], num_samples: int) -> None:
        if num_samples < 1:
            raise FieldError(
                "num_samples", num_samples, "must be at least 1", "Count the items of one epoch."
            )
        if isinstance(items, Iterator):
            raise TaskError(
                f"a {type(items).__name__} can be read once only, and a run reads an epoch more than once. "
                f"Give an object whose __iter__ starts again."
            )
        if getattr(items, "_distributed", None) is not None:
            raise TaskError(
                "the stream was split by split_dataset_by_node: hemostat gives each rank its share itself. "
                "Leave that call out."
            )
        self.items = items
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def begin(self, epoch: int, start: int) -> Iterator[Any]:
        """A fresh iterator at position `start` of an epoch; Hugging Face streams skip by themselves."""
        items = self.items
        if callable(set_epoch := getattr(items, "set_epoch", None)):
            set_epoch(epoch)
        skip = getattr(items, "skip", None)
        if start and callable(skip) and type(items).__module__.partition(".")[0] == "datasets":
            return iter(skip(start))
        return islice(iter(items), start, None)


class Cursor:
    """Reads one stream for one loader.

    Args:
        stream: the data.
        collate: (samples, positions) -> batch.
        role: the method of the task it came from, for messages.
    """

    def __init__(self, stream: Stream, collate: Callable[[list[Any], list[int]], Any], role: str) -> None:
        self._stream = stream
        self._collate = collate
        self._role = role
        self._epoch = -1
        self._next = 0
        self._items: Iterator[Any] = iter(())
        self._first: tuple[int, Any] = (-1, None)

    def fetch(self, positions: Tensor) -> Any:
        """The items at ascending, adjoining positions of the epoch that is being read.

        Raises:
            TaskError: the stream is shorter than it said.
        """
        wanted = positions.tolist()
        if self._epoch == READING.epoch and wanted == [self._first[0]] and wanted[0] < self._next:
            return self._collate([self._first[1]], wanted)  # the filler of a rank that has no more rows
        if self._epoch != READING.epoch or wanted[0] < self._next:
            self._epoch, self._next = READING.epoch, wanted[0]
            self._items = self._stream.begin(self._epoch, wanted[0])
            self._first = (-1, None)
        ahead = wanted[0] - self._next
        samples = list(islice(self._items, ahead, ahead + len(wanted)))
        if len(samples) < len(wanted):
            raise TaskError(
                f"{self._role} ended before sample {wanted[len(samples)]} of {len(self._stream)}. "
                f"Say how long it is: Stream(data, num_samples=...)."
            )
        if self._first[0] < 0:
            self._first = (wanted[0], samples[0])
        self._next = wanted[-1] + 1
        return self._collate(samples, wanted)
