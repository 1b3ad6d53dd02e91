"""Data sets of all kinds become batches, and what cannot is refused with the repair."""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

from hemostat.data import Source
from hemostat.errors import HemostatWarning, TaskError

WANTED = torch.tensor([3, 0, 2])


class Point(NamedTuple):
    x: torch.Tensor
    y: int


class Rows(Dataset):
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return self.make(index)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: torch.full((2,), float(i)),
        lambda i: (torch.full((2,), float(i)), torch.tensor(i)),
        lambda i: (torch.full((2,), float(i)), i),
        lambda i: [np.full(2, i, dtype=np.float32), float(i)],
        lambda i: {"x": torch.full((2,), float(i)), "nested": {"y": i, "name": f"row {i}"}},
        lambda i: Point(torch.full((2,), float(i)), i),
        lambda i: i,
    ],
)
def test_single_samples_are_joined_as_torch_joins_them(make):
    found = Source(Rows(make)).fetch(WANTED)
    expected = default_collate([make(int(i)) for i in WANTED])
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)


def test_a_list_is_a_data_set():
    assert Source([10, 11, 12, 13]).fetch(WANTED).tolist() == [13, 10, 12]


@pytest.mark.parametrize("num_tensors", [1, 2, 3])
def test_a_tensor_data_set_is_indexed_at_once(num_tensors):
    tensors = [torch.randn(5, 2, number + 1) for number in range(num_tensors)]
    batch = Source(TensorDataset(*tensors)).fetch(WANTED)
    assert type(batch) is tuple
    assert all(torch.equal(got, tensor[WANTED]) for got, tensor in zip(batch, tensors, strict=True))


def test_a_batch_is_a_copy_of_the_data():
    data = torch.zeros(5)
    Source(TensorDataset(data)).fetch(WANTED)[0].add_(1)
    assert data.sum() == 0


def test_a_subclass_with_its_own_items_is_asked_for_them():
    class Augmented(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 10

    assert Source(Augmented(torch.arange(5))).fetch(WANTED).tolist() == [30, 0, 20]


def test_a_subclass_that_fetches_many_is_asked_for_them():
    class Tripled(TensorDataset):
        def __getitems__(self, indices):
            return self.tensors[0][indices] * 3

    assert Source(Tripled(torch.arange(5))).fetch(WANTED).tolist() == [9, 0, 6]


def test_subsets_of_subsets_stay_fast_and_right():
    first, _ = random_split(TensorDataset(torch.arange(20)), [12, 8], torch.Generator().manual_seed(0))
    second = Subset(first, range(0, 12, 2))
    expected = [second[int(i)][0].item() for i in WANTED]
    assert Source(second).fetch(WANTED)[0].tolist() == expected


def test_many_at_once_as_samples_or_as_a_batch():
    class Many(Rows):
        def __getitems__(self, indices):
            return self.make(indices)

    assert Source(Many(lambda idx: [(i, i) for i in idx])).fetch(WANTED)[1].tolist() == [3, 0, 2]
    assert Source(Many(lambda idx: {"x": torch.tensor(idx)})).fetch(WANTED)["x"].tolist() == [3, 0, 2]


def test_a_loader_gives_its_data_and_its_collation():
    loader = DataLoader([1, 2, 3, 4], batch_size=64, shuffle=True, collate_fn=lambda items: sum(items))
    source = Source(loader)
    assert source.fetch(WANTED) == 4 + 1 + 3
    assert source.declared_batch == 64
    assert source.num_samples == len(source) == 4
    assert Source([1]).declared_batch is None


def test_a_loader_over_tensors_is_as_fast_as_the_tensors():
    batch = Source(DataLoader(TensorDataset(torch.arange(5)), batch_size=2)).fetch(WANTED)
    assert type(batch) is tuple  # default_collate would give a list


def test_workers_are_not_used_and_that_is_said():
    with pytest.warns(HemostatWarning, match="num_workers=2 is not used"):
        Source(DataLoader([1, 2], num_workers=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Source(DataLoader([1, 2]))


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(3))


class NoLength(Dataset):
    def __getitem__(self, index):
        return index


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (None, "train_data returned None: it must be a data set"),
        (3, "train_data returned int"),
        ({"x": torch.zeros(3)}, "train_data returned dict"),
        ("data.csv", "train_data returned str"),
        ([], "train_data has 0 samples"),
        (TensorDataset(torch.zeros(0, 3)), "train_data has 0 samples"),
        (Endless(), r"train_data is iterable only \(Endless\) and has no length.*Stream\(data, num_samples="),
        (DataLoader(Endless()), r"train_data is iterable only \(Endless\)"),
        ((i for i in range(3)), r"train_data is iterable only \(generator\)"),
        (NoLength(), r"train_data \(NoLength\) has no length.*Give it __len__"),
        ((torch.zeros(3), torch.zeros(3)), r"tuple of 2 tensors.*TensorDataset\(\*tensors\)"),
        (DataLoader([1, 2], batch_size=None), "batch_size=None"),
        (DataLoader([1, 2], sampler=WeightedRandomSampler([1, 2], 2)), "with a WeightedRandomSampler"),
    ],
)
def test_what_is_no_data_set_is_refused_with_the_repair(dataset, message):
    with pytest.raises(TaskError, match=message):
        Source(dataset)


def test_batch_samplers_of_ones_own_are_refused():
    class ByLength(BatchSampler):
        pass

    loader = DataLoader([1, 2, 3], batch_sampler=ByLength(SequentialSampler([1, 2, 3]), 2, False))
    with pytest.raises(TaskError, match="with a ByLength"):
        Source(loader)


def test_the_role_is_in_the_message():
    with pytest.raises(TaskError, match="val_data has 0 samples"):
        Source([], "val_data")


def test_an_exception_names_the_sample_and_the_users_line():
    def make(index):
        if index == 2:
            return {}["image"]
        return index

    with pytest.raises(TaskError) as caught:
        Source(Rows(make)).fetch(WANTED)
    line = make.__code__.co_firstlineno + 2
    assert "train_data: sample 2 raised KeyError: 'image' at " in str(caught.value)
    assert f"test_fetch.py:{line}." in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_exception_inside_torch_still_names_the_users_line():
    source = Source(Rows(lambda i: torch.zeros(2) @ torch.zeros(3)))
    with pytest.raises(TaskError, match=r"sample 3 raised RuntimeError: .* at .*test_fetch\.py:\d+"):
        source.fetch(WANTED)


def test_an_exception_in_a_batch_or_in_the_collation():
    class Many(Rows):
        def __getitems__(self, indices):
            raise OSError("disk gone")

    with pytest.raises(TaskError, match="__getitems__ of 3 samples, first index 3 raised OSError: disk gone"):
        Source(Many(None)).fetch(WANTED)
    loader = DataLoader([1, 2, 3, 4], collate_fn=lambda items: items[9])
    with pytest.raises(TaskError, match="collate_fn of 3 samples, first index 3 raised IndexError"):
        Source(loader).fetch(WANTED)


@pytest.mark.parametrize(
    "make", [lambda i: torch.zeros(i + 1), lambda i: (torch.zeros(i + 1), i), lambda i: object()]
)
def test_samples_that_cannot_be_stacked(make):
    with pytest.raises(TaskError, match=r"samples 3, 0, 2 cannot be stacked .*collate_fn"):
        Source(Rows(make)).fetch(WANTED)


def test_the_content_is_that_of_the_data_set():
    names = [name for name, _ in Source(TensorDataset(torch.zeros(3))).content()]
    assert names == ["tensor 0 (float32 3)"]
    assert Source(Rows(lambda i: i)).content() is None


def test_a_hugging_face_table_is_asked_for_many_rows_at_once():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict(
        {"x": [[float(i), 2.0] for i in range(5)], "y": range(5), "t": list("abcde")}
    )
    batch = Source(table).fetch(WANTED)
    assert batch["x"].dtype == torch.float32
    assert batch["x"][:, 0].tolist() == batch["y"].tolist() == [3, 0, 2]
    assert batch["t"] == ["d", "a", "c"]
    own = Source(table.with_transform(lambda rows: {"z": torch.tensor(rows["y"]) * 10}))
    assert own.fetch(WANTED)["z"].tolist() == [30, 0, 20]
    assert Source(DataLoader(table, collate_fn=lambda rows: [row["y"] for row in rows])).fetch(WANTED) == [
        3,
        0,
        2,
    ]
    with pytest.raises(TaskError, match="3 rows, first index 3, raised ZeroDivisionError"):
        Source(table.with_transform(lambda rows: 1 / 0)).fetch(WANTED)


class Changing(Dataset):
    """Its length follows a list."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return self.lengths[0] if len(self.lengths) == 1 else self.lengths.pop(0)

    def __getitem__(self, index):
        if index >= self.lengths[-1]:
            raise IndexError(index)
        return torch.tensor(index)


def test_data_that_have_changed_their_length_are_told_with_both_numbers():
    source = Source(Changing([200, 100]))
    with pytest.raises(TaskError, match="train_data had 200 samples at the start and has 100 now"):
        source.fetch(torch.tensor([3, 170]))
    with pytest.raises(TaskError, match="had 200 samples at the start and has 100 now"):
        source.check_length()
    Source(Changing([5])).check_length()


def test_a_sample_that_one_rank_lacks_is_said_with_that_rank(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    source = Source(Rows(lambda i: Path(f"shard-{i}.bin").open()))  # noqa: SIM115
    with pytest.raises(
        TaskError, match=r"shard-3\.bin.* on rank 1 of 2 \(host .*find the same files: copy it"
    ):
        source.fetch(WANTED)


def test_what_is_asked_singly_is_known_through_subsets():
    assert Source(Rows(int)).one_by_one and Source(Subset(Rows(int), [1, 2])).one_by_one
    assert not Source(Subset(TensorDataset(torch.arange(5)), [1, 2])).one_by_one
