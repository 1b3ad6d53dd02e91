"""Hint: the first thing that applies, in the order of the page, from real runs and from their figures."""

import re
import time

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Feed, Source, Stream, TrainLoader, Workers
from hemostat.data.choose import Choice


class Costly(Dataset):
    """Each sample naps for 2 ms."""

    def __init__(self, sample):
        self.sample = sample

    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.sample


class Batches(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        raise NotImplementedError

    def __getitems__(self, indices):
        return torch.zeros(len(indices), 3)


def loader(data, workers=None, choice=None):
    source = Source(data)
    source.choice = choice
    return TrainLoader(source, Feed(seed=0, global_batch=8, total_samples=64), workers=workers)


def waited(loader, wait_s=0.5, fetch_s=0.5, num_fetches=10):
    """As if the run had seen these; ten fetches, nine of them short."""
    for number in range(num_fetches):
        rest = 0.0 if number else 10 * wait_s
        loader.waits.add(rest, fetch_s)
    return loader


def test_a_real_run_over_costly_samples_is_told_to_store_them_decoded():
    run = loader(Costly(torch.zeros(3)), Workers(mode="threads", num=2))
    began = time.perf_counter()
    while time.perf_counter() - began < 1.1:  # a run under a second is not judged
        for _ in run:
            pass
    found = run.hint(time.perf_counter() - began)
    said = (
        r"store the samples decoded or tokenised, `hemostat data prepare` \(a batch costs [0-9.]+ ms to read"
    )
    assert re.match(said, found), found  # 16 ms and more: the machine may be busy


def test_a_run_that_does_not_wait_gets_no_advice():
    run = waited(loader(Costly(torch.zeros(3))), wait_s=0.01, fetch_s=0.5)
    assert run.hint(wall_s=100.0) == ""
    assert waited(loader(Costly(torch.zeros(3))), wait_s=0.8, fetch_s=0.8).hint(wall_s=0.9) == ""
    assert loader(Costly(torch.zeros(3))).hint(wall_s=1.0) == ""


@pytest.mark.parametrize(
    ("data", "fetch_s", "workers", "choice", "words"),
    [
        ([torch.zeros(3)] * 64, 1e-4, None, None, "read whole batches, give the data set __getitems__"),
        (Costly(torch.zeros(3, 4, 4)), 0.5, None, None, "ship images as uint8"),
        (Costly(torch.zeros(3)), 0.5, Workers(mode="none"), None, "leave train.workers.mode out"),
        (Costly(torch.zeros(3)), 0.5, None, Choice("processes", 2, ""), "store the samples decoded"),
        (
            Costly(torch.zeros(3)),
            0.2,
            None,
            Choice("threads", 2, ""),
            "more batches ready, --set train.workers.depth=16",
        ),
        (Stream([torch.zeros(3)] * 64, 64), 0.5, None, None, "store the samples decoded"),
        (Batches(), 1e-4, None, Choice("none", 0, ""), "keep the data in memory or on a local disk"),
        (TensorDataset(torch.zeros(64, 3)), 1e-4, None, None, "keep the data in memory or on a local disk"),
    ],
)
def test_the_order(data, fetch_s, workers, choice, words):
    # 10 fetches, 5 s of waiting in one piece, 2 s of work: a step lasts 0.2 s
    run = waited(loader(data, workers, choice), wait_s=0.5, fetch_s=fetch_s)
    run.ships_float_images = "uint8" in words
    assert run.hint(wall_s=7.0).startswith(words)


@pytest.mark.parametrize(("sample", "said"), [(torch.zeros(3, 64, 64), True), (torch.zeros(3), False)])
def test_the_first_batch_tells_whether_images_are_floats(sample, said):
    run = loader(Costly(sample))
    assert not run.ships_float_images
    next(iter(run))
    run.close()
    assert run.ships_float_images is said


def test_long_times_are_told_in_seconds_and_minutes():
    run = waited(loader(Costly(torch.zeros(3)), choice=Choice("threads", 1, "")), wait_s=7.0, fetch_s=75.0)
    said = run.hint(wall_s=80.0)
    assert "(a batch costs 1m15s to read, a step " in said and "e+0" not in said


def test_data_that_ended_the_run_are_not_asked_again():
    class Broken(Costly):
        def __getitem__(self, index):
            raise OSError("gone")

    run = waited(loader(Broken(None), choice=Choice("threads", 1, "")), fetch_s=3.0)
    assert run.hint(wall_s=7.0).startswith("store the samples decoded")
