"""Data that can only be read from front to back: whole by every rank, or by the parts that hold its share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from torch import Tensor

from hemostat.blame import on_rank
from hemostat.data.checks import is_whole
from hemostat.data.parts import Parts
from hemostat.data.reading import READING
from hemostat.errors import FieldError, HemostatWarning, TaskError

_NOTHING: Final = object()


class Stream:
    """Iterable data of a known length.

    With one length, position p of an epoch is the p-th item, and each rank reads the whole stream and keeps its
    share. With the lengths of several parts, every step takes its share of each part, and a rank reads only the
    parts that hold its samples. In both cases the global batches are the same for any number of ranks; data that
    split themselves by rank would lose samples here. There is no order but that of the stream: shuffle in it. In
    epoch e `set_epoch(e)` is called on the data where they have it. Where there are more items than was said, a
    warning tells it once, at the end of the first epoch.

    Args:
        items: anything that gives a fresh iterator each time, such as an IterableDataset.
        num_samples: items in one epoch; the rest is not read. Or those of each part, for data with
            `shard(num_shards, index)`, which is asked for as many parts as there are numbers.

    Attributes:
        num_samples: of all parts together.
        parts: which samples of which part make a step.
        told_of_rest: a warning has said that there are more items.

    Raises:
        FieldError: no samples, or no count of them.
        TaskError: a generator (it can be read once only), data that are split by rank already, or more lengths than
            the data have parts.
    """

    def __init__(self, items: Iterable[Any], num_samples: int | Sequence[int]) -> None:
        whole = is_whole(num_samples) or not isinstance(num_samples, Sequence)
        lengths: list[Any] = [num_samples] if whole else list(num_samples)  # type: ignore[arg-type]
        if not lengths or not all(is_whole(length) and length >= 1 for length in lengths):
            raise FieldError(
                "num_samples", num_samples, "must be counts, 1 or more", "Count the items of one epoch."
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
        _check_parts(items, len(lengths))
        self.items = items
        self.parts = Parts(lengths)
        self.num_samples = int(sum(lengths))
        self.told_of_rest = False

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def begin(self, epoch: int, part: int, start: int) -> Iterator[Any]:
        """A fresh iterator at item `start` of one part; Hugging Face streams skip by themselves."""
        items: Any = self.items
        _tell_epoch(items, epoch)
        if len(self.parts) > 1:
            items = items.shard(num_shards=len(self.parts), index=part)
            _tell_epoch(items, epoch)
        skip = getattr(items, "skip", None)
        if start and callable(skip) and type(items).__module__.partition(".")[0] == "datasets":
            return iter(skip(start))
        return islice(iter(items), start, None)


def _tell_epoch(items: Any, epoch: int) -> None:
    if callable(set_epoch := getattr(items, "set_epoch", None)):
        set_epoch(epoch)


def _check_parts(items: Any, num_parts: int) -> None:
    known = getattr(items, "num_shards", num_parts)
    if num_parts > 1 and (not callable(getattr(items, "shard", None)) or num_parts > known):
        has = f"only {known} shards" if num_parts > known else "no shard(num_shards, index)"
        raise TaskError(
            f"num_samples has {num_parts} lengths, but {type(items).__name__} has {has}. Give one length for all, "
            f"or data that can be split so."
        )


def can_split(items: Any) -> bool:
    """The data can be asked for one of several parts."""
    return callable(getattr(items, "shard", None)) and getattr(items, "num_shards", 2) > 1


def tell_of_splitting(stream: Stream | None, role: str, num_ranks: int) -> None:
    """Warn where every rank is going to read all of a stream that could be split."""
    if stream is not None and len(stream.parts) == 1 and can_split(stream.items):
        warnings.warn(
            f"{role}: each of the {num_ranks} ranks reads the whole stream and keeps its share. To read only its own "
            f"part, give the samples of each: Stream(data, num_samples=[...]).",
            HemostatWarning,
            stacklevel=3,
        )


class Cursor:
    """Reads one stream for one loader.

    Args:
        stream: the data.
        collate: (samples, ids) -> batch.
        role: the method of the task it came from, for messages.
    """

    def __init__(self, stream: Stream, collate: Callable[[list[Any], list[int]], Any], role: str) -> None:
        self._stream = stream
        self._collate = collate
        self._role = role
        self._epoch = -1
        self._places: dict[int, _Place] = {}

    def fetch(self, ids: Tensor) -> Any:
        """The items of ascending ids, adjoining in each part, of the epoch that is being read.

        Raises:
            TaskError: the stream is shorter than it said, or a part is longer.
        """
        if self._epoch != READING.epoch:
            self._epoch = READING.epoch
            self._places = {}
        samples: list[Any] = []
        for part, start, count in self._stream.parts.runs(ids.numpy()):
            samples += self._read(part, start, count)
        return self._collate(samples, ids.tolist())

    def _read(self, part: int, start: int, count: int) -> list[Any]:
        place = self._places.get(part)
        if place is not None and count == 1 and start < place.next:
            for number, item in (place.first, place.last):
                if number == start:
                    return [item]  # the filler of a rank that has no more rows
        if place is None or start < place.next:
            place = self._places[part] = _Place(self._stream.begin(self._epoch, part, start), start)
        ahead = start - place.next
        samples = list(islice(place.items, ahead, ahead + count))
        if len(samples) < count:
            # of what was skipped, it is not known how far the data went
            exact = bool(samples) or start == 0 or (ahead == 0 and place.first[0] >= 0)
            raise TaskError(self._too_short(part, start + len(samples), exact))
        place.next = start + count
        place.last = (place.next - 1, samples[-1])
        if place.first[0] < 0:
            place.first = (start, samples[0])
        if place.next == int(self._stream.parts.lengths[part]) and not self._stream.told_of_rest:
            self._look_behind(part, place)
        return samples

    def _look_behind(self, part: int, place: _Place) -> None:
        """There is nothing behind the last sample."""
        if next(place.items, _NOTHING) is _NOTHING:
            return
        num_parts, length = len(self._stream.parts), place.next
        if num_parts > 1:
            raise TaskError(
                f"part {part} of {self._role} has more than the {length} samples that Stream was told: they would "
                f"never be read. Count the parts as shard({num_parts}, index) gives them, before any shuffling."
            )
        self._stream.told_of_rest = True
        warnings.warn(
            f"{self._role} has more than num_samples={length}: each epoch begins at its start, so the rest is never "
            f"read. Count the items, or shuffle where that is meant.",
            HemostatWarning,
            stacklevel=4,
        )

    def _too_short(self, part: int, number: int, exact: bool) -> str:
        parts = self._stream.parts
        if len(parts) == 1:
            return (
                f"num_samples={len(self._stream)} of {self._role} is wrong{on_rank()}: the data have "
                f"{'' if exact else 'at most '}{number}. Give Stream their number; data with __len__ must return it."
            )
        return (
            f"part {part} of {self._role} ended before its sample {number} of {parts.lengths[part]}. "
            f"Count the parts as shard({len(parts)}, index) gives them, before any shuffling."
        )


class _Place:
    """Where one part is being read."""

    __slots__ = ("first", "items", "last", "next")

    def __init__(self, items: Iterator[Any], start: int) -> None:
        self.items = items
        self.next = start
        self.first: tuple[int, Any] = (-1, None)
        self.last: tuple[int, Any] = (-1, None)
