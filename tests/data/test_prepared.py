"""A prepared copy opens fast, travels to workers, and is not read when its source has changed."""

import hashlib
import os
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import PreparedData, Source, TokenFile
from hemostat.errors import TaskError
from hemostat.track import fingerprint


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "train-0003.bin"
    np.arange(101, dtype=np.uint16).tofile(path)
    os.utime(path, (1e9, 1e9))
    Source(TokenFile(path, window=10)).prepare(tmp_path / "copy")
    return path


def test_a_copy_of_unchanged_files_is_read(tokens, tmp_path):
    data = PreparedData(tmp_path / "copy")
    assert len(data) == 10 and data[1][0].tolist() == list(range(10, 20))
    os.utime(tokens)
    assert len(PreparedData(tmp_path / "copy")) == 10


def test_a_changed_source_is_refused_by_name(tokens, tmp_path):
    np.arange(1, 102, dtype=np.uint16).tofile(tokens)
    with pytest.raises(
        TaskError, match=r"other data than there are now: shard train-0003.bin differs\. Prepare"
    ):
        PreparedData(tmp_path / "copy")
    assert len(PreparedData(tmp_path / "copy", check=False)) == 10


def test_a_copy_stands_for_itself_without_its_source(tokens, tmp_path):
    tokens.unlink()
    assert len(PreparedData(tmp_path / "copy")) == 10


def test_it_travels_to_workers(tokens, tmp_path):
    data = PreparedData(tmp_path / "copy")
    assert len(pickle.dumps(data)) < 4096
    assert torch.equal(pickle.loads(pickle.dumps(data))[3][0], data[3][0])


def test_it_has_a_fingerprint_of_its_own(tokens, tmp_path):
    found = fingerprint(Source(PreparedData(tmp_path / "copy")).content())
    assert set(found.files) == {"0.npy", "1.npy"}


def test_rows_are_gathered_at_once(tmp_path):
    Source(TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20))).prepare(tmp_path / "copy")
    source = Source(PreparedData(tmp_path / "copy"))
    assert not source.one_by_one
    inputs, labels = source.fetch(torch.tensor([19, 0]))
    assert inputs.tolist() == [[38.0, 39.0], [0.0, 1.0]] and labels.tolist() == [19, 0]
    inputs += 1  # a batch is the consumer's own
    assert source.fetch(torch.tensor([0]))[0].tolist() == [[0.0, 1.0]]


def test_half_a_copy_is_refused(tokens, tmp_path):
    with pytest.raises(TaskError, match=r"hemostat data prepare task.py:Task --out"):
        PreparedData(tmp_path / "none")
    with (tmp_path / "copy" / "1.npy").open("r+b") as file:
        file.truncate(150)
    with pytest.raises(TaskError, match=r"1.npy is missing or was cut short"):
        PreparedData(tmp_path / "copy")
    (tmp_path / "copy" / "prepared.json").write_text("{")
    with pytest.raises(TaskError, match=r"prepared.json cannot be read"):
        PreparedData(tmp_path / "copy")
    (tmp_path / "copy" / "prepared.json").write_text('{"format": 99}')
    with pytest.raises(TaskError, match="format 99, this version reads 1"):
        PreparedData(tmp_path / "copy")


def test_a_copy_that_is_shortened_while_it_is_read_is_named(tmp_path):
    Source(TensorDataset(torch.arange(40_000))).prepare(tmp_path / "copy")
    data = PreparedData(tmp_path / "copy")
    os.truncate(tmp_path / "copy" / "0.npy", 4096)
    for read in (lambda: data[39_999], lambda: data.batch(torch.tensor([39_999]))):
        with pytest.raises(
            TaskError, match=r"0.npy was shortened while it was read.* Prepare the folder again"
        ):
            read()


class Shards(TensorDataset):
    def __init__(self, files):
        super().__init__(torch.arange(10))
        self.files = files

    def fingerprint(self):
        return self.files


@pytest.fixture
def shards(tmp_path):
    (tmp_path / "raw").mkdir()
    files = [tmp_path / "raw" / f"{number}.bin" for number in range(3)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * (6 << 20 if number == 0 else 100))
    Source(Shards(files)).prepare(tmp_path / "copy")
    return files


def test_one_shard_that_is_gone_is_named_and_all_of_them_are_a_move(shards, tmp_path):
    shards[1].unlink()
    with pytest.raises(TaskError, match=r"made from other data than there are now: shard 1\.bin is gone"):
        PreparedData(tmp_path / "copy")
    shards[0].unlink()
    shards[2].unlink()
    assert len(PreparedData(tmp_path / "copy")) == 10


def test_of_large_files_with_other_inodes_only_pieces_are_read(shards, tmp_path, monkeypatch):
    content = shards[0].read_bytes()
    shards[0].unlink()
    shards[0].write_bytes(content)
    os.utime(shards[0], (1e9, 1e9))  # a file of this moment may still change within its time stamp
    num_read = []
    real = hashlib.sha256

    class Counting:
        def __init__(self, data=b""):
            self.inner = real(data)

        def update(self, data):
            num_read.append(len(data))
            self.inner.update(data)

        def digest(self):
            return self.inner.digest()

        def hexdigest(self):
            return self.inner.hexdigest()

    monkeypatch.setattr("hashlib.sha256", Counting)
    PreparedData(tmp_path / "copy")
    assert 4 << 20 <= sum(num_read) < 5 << 20
    num_read.clear()
    PreparedData(tmp_path / "copy")
    assert sum(num_read) < 1 << 20, "known from now on"


def test_one_rank_of_a_machine_looks(shards, tmp_path, monkeypatch):
    shards[1].write_bytes(b"other")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert len(PreparedData(tmp_path / "copy")) == 10
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(TaskError, match=r"shard 1.bin differs: 5 bytes, 100 before"):
        PreparedData(tmp_path / "copy")
