"""The copy holds what the data set gave, whole or not at all, and refuses what would not be the same."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from hemostat.data import EvalLoader, PreparedData, Source, Stream, TokenFile, sample_rng
from hemostat.errors import FieldError, RecordError, TaskError


class Rows(Dataset):
    def __init__(self, make, num=150):
        self.make, self.num = make, num

    def __len__(self):
        return self.num

    def __getitem__(self, index):
        return self.make(index)


def row(index):
    generator = torch.Generator().manual_seed(index)
    return {
        "image": torch.randint(0, 255, (3, 4, 5), generator=generator, dtype=torch.uint8),
        "pair": (torch.randn(2, generator=generator).bfloat16(), np.float32(index)),
        "label": index,
        "flag": index % 2 == 0,
    }


def copied(dataset, folder, **more):
    Source(dataset).prepare(folder, **more)
    return PreparedData(folder)


def same(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left.dtype == right.dtype and torch.equal(left, right)


def test_batches_of_the_copy_equal_those_of_the_data(tmp_path):
    copy = copied(Rows(row), tmp_path / "copy")
    wanted = torch.tensor([149, 3, 3, 77])
    assert len(copy) == 150
    assert same(Source(copy).fetch(wanted), Source(Rows(row)).fetch(wanted))
    assert same(next(iter(DataLoader(copy, batch_size=4))), next(iter(DataLoader(Rows(row), batch_size=4))))
    assert copy[-1]["label"] == 149
    with pytest.raises(IndexError):
        copy[150]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1, 1, 1, 1, 2)])
@pytest.mark.parametrize("num", [1, 64, 65, 1001])
def test_headers_fit_any_shape(tmp_path, shape, num):
    data = TensorDataset(torch.rand(num, *shape))
    copy = copied(data, tmp_path / "copy")
    assert torch.equal(Source(copy).fetch(torch.arange(num))[0], data.tensors[0])


def test_rows_of_unequal_lengths_become_one_flat_file(tmp_path):
    data = [torch.arange(k % 7, dtype=torch.int32) for k in range(200)]
    copy = copied(data, tmp_path / "copy")
    assert copy.is_ragged and all(torch.equal(copy[k], data[k]) for k in range(200))
    flat = TokenFile(tmp_path / "copy" / "0.npy", window=4)
    assert flat.num_tokens == sum(map(len, data))
    padded = DataLoader(copy, collate_fn=lambda rows: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
    assert next(iter(EvalLoader(padded, micro_batch=7))).data.shape == (7, 6)


def test_a_stream_and_a_table_are_copied(tmp_path):
    copy = copied(Stream(Counting(), num_samples=70), tmp_path / "stream")
    assert Source(copy).fetch(torch.arange(70)).tolist() == list(range(70))
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"ids": [[1, 2], [3]], "label": [0, 1]})
    copy = copied(table, tmp_path / "table")
    assert copy[1]["ids"].tolist() == [3] and copy[1]["label"] == 1


class Counting:
    def __iter__(self):
        return iter(range(100))


@pytest.mark.parametrize("make", [lambda i: torch.rand(2), lambda i: torch.tensor(sample_rng(i).random())])
def test_random_data_are_refused(tmp_path, make):
    with pytest.raises(TaskError, match=r"sample 0 differs between two reads: its augmentation is random"):
        copied(Rows(make), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda i: torch.zeros(2, 3 + (i == 77)),
            r"sample 77 has a part of shape \(2, 4\), sample 0 \(2, 3\)",
        ),
        (lambda i: (torch.zeros(1), {"name": "a"}), r"sample 0\[1\]\['name'\] is a str: only tensors"),
        (
            lambda i: (1,) * (1 + (i == 77)),
            r"sample 77 is another tree than sample 0: \(2 parts\) and \(1 parts\)",
        ),
        (lambda i: torch.zeros(1).double() if i == 77 else torch.zeros(1), r"sample 77 holds torch.float64"),
        (lambda i: 1 // (i - 77), r"sample 77 raised ZeroDivisionError"),
    ],
)
def test_what_cannot_be_copied_is_named_and_leaves_nothing(tmp_path, make, says):
    with pytest.raises(TaskError, match=says):
        copied(Rows(make), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "copy").mkdir()
    copied([1, 2], tmp_path / "copy")
    with pytest.raises(FieldError, match="already and not empty"):
        copied([1, 2, 3], tmp_path / "copy")
    assert len(PreparedData(tmp_path / "copy")) == 2


def test_a_copy_that_cannot_fit_is_not_begun(tmp_path):
    huge = Rows(lambda i: torch.zeros(1, 1).expand(1000, 1000), num=10**12)
    with pytest.raises(RecordError, match=r"the copy needs .* are free"):
        copied(huge, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_message(tmp_path):
    """A limit on the size of files stands for it: both are an OSError of write."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(RecordError, match="cannot be written"):
            copied(TensorDataset(torch.zeros(1000, 1000)), tmp_path / "copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept(tmp_path):
    code = """
import os, signal, sys, torch
from pathlib import Path
from hemostat.data import Source
def die(done):
    os.kill(os.getpid(), signal.SIGKILL)
Source([torch.zeros(1)] * 100).prepare(Path(sys.argv[1]), progress=die)
"""
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "copy")], check=False)
    assert ended.returncode == -9 and len(list(tmp_path.iterdir())) == 1
    copied([1, 2], tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_the_recipe_says_where_it_comes_from(tmp_path):
    copy = copied([1, 2], tmp_path / "copy", about={"split": "train"})
    recipe = json.loads((tmp_path / "copy" / "prepared.json").read_text())
    assert recipe == json.loads(json.dumps(copy.recipe))
    assert recipe["split"] == "train" and recipe["dataset"] == "list" and recipe["source"]["tier"] == "full"
    assert recipe["leaves"] == [{"file": "0.npy", "offsets": None, "dtype": "int64", "shape": [2]}]
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {
        "0.npy",
        "prepared.json",
        "source.sqlite",
    }
