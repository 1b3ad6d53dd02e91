"""Ways to read: joining, normalising, depth; each against data that need it and data that do not."""

import random
import statistics
import time
import timeit

import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Source
from hemostat.data.probing import Subject
from hemostat.data.ways_to_read import batch_fetch, depth, modes, pinning, uint8


class Uneven(Dataset):
    """Every fourth batch takes long, as when a disk turns to another file; the same each time."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        raise NotImplementedError

    def __getitems__(self, indices):
        rng = random.Random(indices[0])
        time.sleep(0.012 if rng.random() < 0.25 else 0.001)
        return torch.zeros(len(indices), 3)


def subject(data, micro_batch=8, fetch_s=None, budget_s=0.6):
    source = Source(data)
    indices = torch.arange(micro_batch)
    batch = source.fetch(indices)  # what is loaded at the first call is no part of a batch
    fetch_s = fetch_s or statistics.median(timeit.repeat(lambda: source.fetch(indices), number=1, repeat=9))
    return Subject(source, micro_batch, fetch_s, fetch_s, batch, budget_s)


def test_joining_is_most_of_a_batch_of_small_samples():
    data = [{"a": torch.tensor([float(i)]), "b": torch.tensor([1.0])} for i in range(64)]
    found = batch_fetch(subject(data, 32))
    assert found.gain > 1.2
    assert "give it __getitems__" in found.what
    assert not batch_fetch(subject(TensorDataset(torch.zeros(64, 3)))).applies


def test_images_as_floats_are_told_to_travel_as_bytes():
    images = TensorDataset(torch.zeros(16, 3, 128, 128))
    found = uint8(subject(images, 8))
    assert found.gain > 1.2
    assert "4 times fewer bytes" in found.what
    assert not uint8(subject(TensorDataset(torch.zeros(16, 3, 8, 8, dtype=torch.uint8)))).applies


def test_a_reader_that_stumbles_wants_more_depth():
    found = depth(subject(Uneven(), 4, fetch_s=0.004, budget_s=1.5))
    assert found.gain > 1.05
    assert found.what.startswith("--set train.workers.depth=4: depth 1, 2, 4 give ")


def test_depth_of_what_costs_nothing_is_not_measured():
    found = depth(subject(TensorDataset(torch.zeros(64, 3)), fetch_s=5e-6))
    assert (found.applies, found.gain) == (False, None)
    assert "5.0 us" in found.what


def test_the_modes_name_the_settings_that_choose_them():
    found = list(modes(subject(Uneven(), 8, budget_s=0.1)))
    assert [way.way.split()[0] for way in found] == ["threads", "threads", "processes"]
    assert found[-1].what.startswith("--set train.workers.mode=processes --set train.workers.num=")


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="there is no accelerator")
def test_pinning_on_an_accelerator():
    found = pinning(subject(TensorDataset(torch.zeros(64, 3, 224, 224)), 64))
    assert found.gain > 0.5
    assert "pin_memory() in the collate_fn, for what the training thread or threads read" in found.what
