"""Advice: each way measured, in the order of the page; what this data set needs stands out, the rest is set apart."""

import time

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Source, Stream

ORDER = ["batch fetch", "uint8", "threads", "processes", "depth", "pinning", "stored copy", "shards", "cache"]


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


def probed(data, micro_batch=20):
    report = Source(data).probe(micro_batch)
    helps = {advice.way: advice.gain for advice in report.advice}
    return report, helps, {advice.way: advice for advice in report.no_gain}


def test_waiting_for_a_disk_asks_for_readers_a_copy_or_a_cache():
    report, helps, rest = probed(Naps())
    assert 0.001 < report.fetch_s / report.micro_batch < 0.01
    assert max(gain for way, gain in helps.items() if way.startswith("threads")) > 1.3
    assert helps["stored copy"] > 20
    assert helps["cache"] > 5
    assert rest["batch fetch"].gain < 1.1  # joining is nothing here
    assert (rest["shards"].gain, rest["shards"].what) == (None, "the data set shows no list of many files")


def test_the_order_is_that_of_the_page():
    report, _, _ = probed(Naps())
    for ways in (report.advice, report.no_gain):
        kinds = [ORDER.index(next(kind for kind in ORDER if advice.way.startswith(kind))) for advice in ways]
        assert kinds == sorted(kinds)
    assert {
        kind for kind in ORDER for way in report.advice + report.no_gain if way.way.startswith(kind)
    } == set(ORDER)


def test_what_is_in_memory_gains_nothing_from_processes_and_that_stands_apart():
    _, helps, rest = probed(TensorDataset(torch.randn(4000, 64), torch.zeros(4000)), 32)
    assert not any(way.startswith("processes") for way in helps)
    assert any(way.startswith("processes") and found.gain < 1 for way, found in rest.items())
    assert rest["batch fetch"].gain is None
    assert "less than handing it over" in rest["depth"].what


@pytest.mark.skipif(torch.accelerator.is_available(), reason="then it is measured")
def test_pinning_is_no_number_without_an_accelerator():
    report, helps, _ = probed(Naps())
    assert helps["pinning"] is None
    assert next(advice.what for advice in report.advice if advice.way == "pinning") == (
        "not measured: no accelerator"
    )


def test_a_stream_has_one_reader():
    report, _, _ = probed(Stream([torch.zeros(3)] * 50, 50), 10)
    ways = [advice.way for advice in report.advice + report.no_gain]
    assert [way for way in ways if way.startswith(("threads", "processes"))] == ["threads 1"]


def test_a_batch_larger_than_the_data():
    assert probed(TensorDataset(torch.randn(5, 2)), 100)[0].fetch_s > 0


class Slow(Dataset):
    def __init__(self, sample_s):
        self.sample_s = sample_s

    def __len__(self):
        return 640

    def __getitem__(self, index):
        time.sleep(self.sample_s)
        return torch.zeros(4)


@pytest.mark.parametrize(("sample_s", "largest"), [(0.02, 2), (0.15, 1)])
def test_slow_data_are_measured_in_smaller_batches(sample_s, largest):
    began = time.perf_counter()
    report, _, rest = probed(Slow(sample_s), 64)  # a batch of 64 takes 1.3 s, or 10 s
    assert time.perf_counter() - began < 12
    assert report.micro_batch <= largest
    assert sample_s < 0.1 or ("costs" in rest["depth"].what and rest["depth"].gain is None)


def test_each_way_is_told_as_it_comes():
    told = []
    report = Source(Naps()).probe(20, told.append)
    assert (told[0].advice, told[0].no_gain) == ((), ())
    sizes = [len(each.advice) + len(each.no_gain) for each in told]
    assert sizes == list(range(len(told))) and told[-1] == report
