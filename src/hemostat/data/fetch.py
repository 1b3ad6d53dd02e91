"""A user's data set as one function from int64 indices to a batch, with the cheapest way it offers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)
from torch.utils.data import default_collate as torch_collate

from hemostat.blame import on_rank, said, user_line
from hemostat.data.choose import Choice
from hemostat.data.content import content, is_table
from hemostat.data.prepared import PreparedData
from hemostat.data.reading import READING
from hemostat.data.stream import Cursor, Stream
from hemostat.errors import HemostatWarning, TaskError

if TYPE_CHECKING:
    from pathlib import Path

    from hemostat.data.advice import Report

Fetch = Callable[[Tensor], Any]
Collate = Callable[[Any], Any]
_PLAIN_SAMPLERS = (RandomSampler, SequentialSampler, DistributedSampler)


class Source:
    """A data set that can be fetched from in batches.

    Args:
        dataset: anything with `__len__` and `__getitem__`, iterable data with `__len__` or in a `Stream`, or a
            DataLoader around one (its `dataset` and `collate_fn` are used; order and batch size are our own).
        role: the method of the task it came from, for messages.

    Attributes:
        num_samples: its length.
        fetch: int64 tensor of shape (n,) -> a batch of n samples.
        declared_batch: `batch_size` of the DataLoader, in samples, if it was one; the recipe decides.
        choice: who reads it, once that was measured.
        one_by_one: its samples are asked for singly.

    Raises:
        TaskError: without a length, empty, or not a data set; the message says how to mend it.

    Examples:
        >>> source = Source([(torch.tensor([float(i)]), i) for i in range(5)])
        >>> source.fetch(torch.tensor([3, 1]))
        [tensor([[3.],
                [1.]]), tensor([3, 1])]
    """

    def __init__(self, dataset: Any, role: str = "train_data") -> None:
        self.role = role
        self.choice: Choice | None = None
        self.declared_batch = dataset.batch_size if isinstance(dataset, DataLoader) else None
        dataset, collate = _unwrap(dataset, role)
        if _is_iterable(dataset) and not isinstance(dataset, Stream):
            dataset = Stream(dataset, max(1, _size(dataset, role)))
        self.dataset = dataset
        self.stream = dataset if isinstance(dataset, Stream) else None
        self.num_samples = _size(dataset, role)
        if self.num_samples == 0:
            raise TaskError(
                f"{role} has 0 samples: there is nothing to read. Check its path and its filters."
            )
        self._collate = collate
        self._about = _About(dataset, role, self.num_samples)
        self.fetch: Fetch
        self.fetch, self.one_by_one = (
            (self.reader(), False) if self.stream else _fetcher(dataset, collate, self._about)
        )

    def __len__(self) -> int:
        return self.num_samples

    def reader(self) -> Fetch:
        """What one loader fetches with: a stream has a place of its own for each."""
        if self.stream is None:
            return self.fetch
        return Cursor(self.stream, self.collate, self.role).fetch

    def check_length(self) -> None:
        """Refuse data that have grown or shrunk since this source was made: the order is one of their number.

        Raises:
            TaskError: with both numbers.
        """
        self._about.check_length()

    def collate(self, samples: list[Any], indices: list[int]) -> Any:
        """Join samples into a batch; the indices are for messages."""
        return _collated(samples, self._collate, self._about, indices)

    def probe(self, micro_batch: int, tell: Callable[[Report], None] | None = None) -> Report:
        """What would make reading faster; see `hemostat.data.advice.advise`."""
        from hemostat.data.advice import advise  # it uses the loaders, which use this module

        return advise(self, micro_batch, tell)

    def prepare(self, folder: Path, **recipe: Any) -> dict[str, Any]:
        """Write a memory-mapped copy of all samples; see `hemostat.data.prepare`."""
        from hemostat.data.prepare import prepare_copy  # it uses the loaders, which use this module

        return prepare_copy(self, folder, **recipe)

    def content(self) -> Iterator[Any] | None:
        """What identifies the data, in parts for a fingerprint (see `hemostat.data.content`); None if not known."""
        return content(self.dataset)


def _unwrap(dataset: Any, role: str) -> tuple[Any, Collate | None]:
    """Take the data set and its own collation, if any, out of a DataLoader."""
    if not isinstance(dataset, DataLoader):
        return dataset, None
    if isinstance(dataset.dataset, IterableDataset) and dataset.batch_size is not None:
        collate = dataset.collate_fn
        return dataset.dataset, None if collate is torch_collate else collate
    if dataset.batch_size is None and dataset.batch_sampler is None:
        raise TaskError(
            f"{role} is a DataLoader with batch_size=None: its items are batches already. "
            f"Return the data set of single samples instead."
        )
    sampler = dataset.sampler
    own_batches = type(dataset.batch_sampler).__name__ != "BatchSampler"
    if own_batches or not isinstance(sampler, _PLAIN_SAMPLERS):
        name = type(dataset.batch_sampler if own_batches else sampler).__name__
        raise TaskError(
            f"{role} is a DataLoader with a {name}: hemostat orders the samples itself and would ignore it. "
            f"Put the choice into the data set (for example torch.utils.data.Subset) and return that."
        )
    if dataset.num_workers:
        warnings.warn(
            f"{role}: num_workers={dataset.num_workers} is not used: who reads is measured at the start. "
            f"To decide it yourself: --set train.workers.num={dataset.num_workers}",
            HemostatWarning,
            stacklevel=2,
        )
    collate = dataset.collate_fn
    return dataset.dataset, None if collate is torch_collate else collate


def _size(dataset: Any, role: str) -> int:
    kind = type(dataset).__name__
    if _is_iterable(dataset):
        try:
            return len(dataset)
        except TypeError:
            raise TaskError(
                f"{role} is iterable only ({kind}) and has no length: the length of an epoch must be known. "
                f"Return hemostat.data.Stream(data, num_samples=...), or data with __len__ and __getitem__."
            ) from None
    if isinstance(dataset, tuple) and any(isinstance(part, Tensor) for part in dataset):
        raise TaskError(
            f"{role} is a tuple of {len(dataset)} tensors: that is no data set. "
            f"Return torch.utils.data.TensorDataset(*tensors)."
        )
    if dataset is None or isinstance(dataset, (dict, str, bytes)) or not hasattr(dataset, "__getitem__"):
        raise TaskError(
            f"{role} returned {'None' if dataset is None else kind}: it must be a data set. "
            f"Return something with __len__ and __getitem__, such as a TensorDataset or a list of samples."
        )
    try:
        return len(dataset)
    except TypeError:
        raise TaskError(
            f"{role} ({kind}) has no length: the length of an epoch must be known. Give it __len__."
        ) from None


def _is_iterable(dataset: Any) -> bool:
    """Iterable and nothing more."""
    only = hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")
    return isinstance(dataset, IterableDataset | Stream) or only


class _About:
    """What messages say of a data set.

    Args:
        dataset: the data.
        role: the method of the task it came from.
        num_samples: its length at the start.
    """

    def __init__(self, dataset: Any, role: str, num_samples: int) -> None:
        self._dataset = dataset
        self.role = role
        self._num_samples = num_samples

    def check_length(self) -> None:
        """Refuse another length than that of the start.

        Raises:
            TaskError: with both numbers.
        """
        now = len(self._dataset)
        if now != self._num_samples:
            raise TaskError(
                f"{self.role} had {self._num_samples} samples at the start and has {now} now{on_rank()}. "
                f"Let the length stay as it is while a run reads the data."
            )


def _fetcher(dataset: Any, collate: Collate | None, about: _About) -> tuple[Fetch, bool]:
    """The cheapest way to a batch, and whether it asks for one sample after the other."""
    if collate is None:
        if isinstance(dataset, PreparedData) and not dataset.is_ragged:
            return dataset.batch, False
        tensors = _tensors(dataset)
        if tensors is not None:
            return _from_tensors(tensors), False
        if isinstance(dataset, Subset) and type(dataset).__getitem__ is Subset.__getitem__:
            return _from_subset(dataset, about)
        if is_table(dataset):
            return _from_table(dataset, about), False
    if callable(getattr(dataset, "__getitems__", None)):
        return _from_getitems(dataset, collate, about), False
    return _from_getitem(dataset, collate, about), True


def _tensors(dataset: Any) -> tuple[Tensor, ...] | None:
    """The tensors of a TensorDataset that nobody has taught other ways."""
    if not isinstance(dataset, TensorDataset) or hasattr(dataset, "__getitems__"):
        return None
    return dataset.tensors if type(dataset).__getitem__ is TensorDataset.__getitem__ else None


def _from_tensors(tensors: tuple[Tensor, ...]) -> Fetch:
    select = torch.index_select
    if len(tensors) == 2:  # the usual pair, without the cost of a loop
        first, second = tensors
        return lambda indices: (select(first, 0, indices), select(second, 0, indices))
    return lambda indices: tuple([select(tensor, 0, indices) for tensor in tensors])


def _from_subset(dataset: Subset[Any], about: _About) -> tuple[Fetch, bool]:
    inner, one_by_one = _fetcher(dataset.dataset, None, about)
    chosen = torch.as_tensor(dataset.indices, dtype=torch.int64)
    return lambda indices: inner(chosen[indices]), one_by_one


def _from_table(dataset: Any, about: _About) -> Fetch:
    table = dataset.with_format("torch") if dataset.format["type"] is None else dataset

    def fetch(indices: Tensor) -> Any:
        wanted = indices.tolist()
        try:
            return table[wanted]
        except Exception as error:  # noqa: BLE001 - a transform of the user may raise anything
            _blame(error, about, f"{len(wanted)} rows, first index {wanted[0]},")

    return fetch


def _from_getitems(dataset: Any, collate: Collate | None, about: _About) -> Fetch:
    def fetch(indices: Tensor) -> Any:
        wanted = indices.tolist()
        try:
            got = dataset.__getitems__(wanted)
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            _blame(error, about, f"__getitems__ of {len(wanted)} samples, first index {wanted[0]}")
        if collate is None and not isinstance(got, list):
            return got  # already a batch
        return _collated(got, collate, about, wanted)

    return fetch


def _from_getitem(dataset: Any, collate: Collate | None, about: _About) -> Fetch:
    def fetch(indices: Tensor) -> Any:
        wanted = indices.tolist()
        samples: list[Any] = []
        append = samples.append
        place = READING.cell
        index = -1
        try:
            for index in wanted:
                place[0] = index
                append(dataset[index])
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            _blame(error, about, f"sample {index}")
        return _collated(samples, collate, about, wanted)

    return fetch


def _collated(samples: Any, collate: Collate | None, about: _About, wanted: Sequence[int]) -> Any:
    try:
        return collate_samples(samples) if collate is None else collate(samples)
    except Exception as error:
        if collate is not None:
            _blame(error, about, f"collate_fn of {len(wanted)} samples, first index {wanted[0]}")
        raise TaskError(
            f"{about.role}: samples {', '.join(map(str, wanted[:4]))}{' ...' if len(wanted) > 4 else ''} cannot be "
            f"stacked into a batch ({said(error)}). Give all samples one shape, or return a DataLoader with "
            f"your collate_fn."
        ) from error


def collate_samples(samples: list[Any]) -> Any:
    """torch's own collation, with a shorter way for the commonest sample: a pair of tensors."""
    first = samples[0]
    if type(first) is tuple and all(type(part) is Tensor for part in first):
        return [torch.stack(parts) for parts in zip(*samples, strict=True)]
    return torch_collate(samples)


def _blame(error: Exception, about: _About, what: str) -> NoReturn:
    """Raise what the user's code raised, with its line, in one sentence."""
    if isinstance(error, TaskError):
        raise error
    with suppress(TypeError):  # a __len__ that fails by now is no news
        about.check_length()
    where = user_line(error)
    fix = "Mend the data set, or leave that sample out."
    if isinstance(error, FileNotFoundError) and on_rank():
        fix = "Every rank must find the same files: copy it there, or leave that sample out."
    raise TaskError(
        f"{about.role}: {what} raised {said(error)}{f' at {where}' if where else ''}{on_rank()}. {fix}"
    ) from error
