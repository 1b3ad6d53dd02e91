"""Ways to store: real files read one by one and out of one file, decoded samples on disk and in memory."""

import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from hemostat.data import Source
from hemostat.data.probing import Subject
from hemostat.data.ways_to_store import cache, files_of, shards, stored_copy


class Files(Dataset):
    """One small file a sample; the list stands where torchvision keeps it."""

    def __init__(self, folder, num, size=2000):
        self.samples = [(str(folder / f"{i}.bin"), i) for i in range(num)]
        for path, i in self.samples:
            Path(path).write_bytes(bytes([i % 256]) * size)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        content = Path(self.samples[index][0]).read_bytes()
        return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def subject(data, micro_batch=16, first=1.0):
    source = Source(data)
    source.fetch(torch.arange(micro_batch))  # what is loaded at the first call is no part of a batch
    began = time.perf_counter()
    batch = source.fetch(torch.arange(micro_batch))
    fetch_s = time.perf_counter() - began
    return Subject(source, micro_batch, first * fetch_s, fetch_s, batch, 0.2)


def test_many_small_files_are_faster_as_one(tmp_path):
    found = shards(subject(Files(tmp_path, 200)))
    assert found.applies and found.gain > 1
    assert "200 files of about 2.0 KiB in one memory-mapped file" in found.what


def test_few_or_large_files_and_none_are_not_offered(tmp_path):
    assert not shards(subject(Files(tmp_path, 20))).applies
    large = shards(subject(Files(tmp_path, 70, size=2 << 20)))
    assert (large.applies, large.what) == (False, "the files are large already (2.0 MiB)")
    assert not shards(subject(TensorDataset(torch.zeros(100, 3)))).applies


def test_the_list_of_files_is_found_inside_wrappers(tmp_path):
    data = Files(tmp_path, 3)
    assert [path.name for path in files_of(Subset(data, [1]))] == ["0.bin", "1.bin", "2.bin"]
    data.samples = ["no such file"]
    assert files_of(data) == []
    data.samples = [3, 4]
    assert files_of(data) == []


class Decoded(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.zeros(1000), index


@pytest.mark.parametrize("way", [stored_copy, cache])
def test_costly_samples_are_better_kept(way):
    found = way(subject(Decoded()))
    assert found.gain > 5
    assert "3.9 KiB a sample" in found.what or "391.4 KiB for all" in found.what


def test_a_cache_larger_than_the_memory_helps_only_where_it_reaches(monkeypatch):
    data = subject(Decoded())
    whole = cache(data).gain
    room = 2 * 0.25 * 100 * 4008  # for a quarter of it
    sizes = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": room}
    monkeypatch.setattr("os.sysconf", sizes.__getitem__)
    found = cache(data)
    assert 1.1 < found.gain < 1.5 < whole
    assert "25 % of them in half of this machine's memory" in found.what


def test_a_slow_first_reading_is_told():
    assert "the first reading took 3 times as long" in cache(subject(Decoded(), first=3.0)).what


def test_nothing_to_keep():
    words = subject(["a", "b"] * 8, 4)
    assert not cache(words).applies
    assert not stored_copy(words).applies
