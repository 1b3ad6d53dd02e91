"""Advice: each way measured; the way that this data set needs stands out."""

import time

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Source, Stream


class Naps(Dataset):
    """Waits, as a disk does."""

    def __len__(self):
        return 200

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((3, 8, 8), float(index)), index


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("hemostat.data.advice.BUDGET_S", 0.2)


def gains(data, micro_batch=20):
    report = Source(data).probe(micro_batch)
    return report, {advice.way: advice.gain for advice in report.advice}


def test_waiting_for_a_disk_asks_for_readers_or_a_copy():
    report, found = gains(Naps())
    assert 0.02 < report.fetch_s < 0.2
    assert list(found)[:3] == ["batch fetch", "uint8", "threads 1"]
    many = max(gain for way, gain in found.items() if way.startswith("threads"))
    assert many > 1.3
    assert found["stored copy"] > 20
    assert found["batch fetch"] < 1.3
    assert found["local cache"] is None


def test_what_is_in_memory_gains_nothing_from_processes():
    _, found = gains(TensorDataset(torch.randn(4000, 64), torch.zeros(4000)), 32)
    assert found["batch fetch"] is None
    assert all(gain < 1 for way, gain in found.items() if way.startswith("processes"))


def test_a_stream_has_one_reader():
    _, found = gains(Stream([torch.zeros(3)] * 50, 50), 10)
    assert [way for way in found if way.startswith(("threads", "processes"))] == ["threads 1"]


def test_a_batch_larger_than_the_data():
    report, _ = gains(TensorDataset(torch.randn(5, 2)), 100)
    assert report.fetch_s > 0
