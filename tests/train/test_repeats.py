import random

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Source, Stream, sample_rng
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.repeats import random_reads, reader, seeded
from hemostat.train.rng import generators_kept

DRAWS = {
    "none": lambda index: 0.0,
    "sample_rng": lambda index: float(sample_rng(index).random()),
    "random": lambda index: random.random(),
    "numpy.random": lambda index: float(np.random.rand()),
    "torch": lambda index: torch.rand(()).item(),
}


class Shifted(Dataset):
    """Ones, shifted by a draw."""

    def __init__(self, draw):
        self.draw = draw
        self.num_reads = 0

    def __len__(self):
        return 24

    def __getitem__(self, index):
        self.num_reads += 1
        return torch.ones(4) * index + self.draw(index), torch.ones(1)


class Many(Shifted):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Batches(Shifted):
    def __getitems__(self, indices):
        pairs = [self[index] for index in indices]
        return tuple(map(torch.stack, zip(*pairs, strict=True)))


def session_of(data, accumulation=1):
    torch.manual_seed(0)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=12)
    return Session(
        torch.nn.Linear(4, 1),
        None,
        data,
        base,
        Devices(accumulation=accumulation),
        TrainSettings(record=False),
    )


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("kind", [Shifted, Many, Batches])
def test_draws_from_the_global_generators_are_noticed(kind, name):
    said = random_reads(session_of(kind(DRAWS[name])))
    if name in ("none", "sample_rng"):
        assert said == ""
    else:
        assert "two reads of the same samples of train_data differ" in said and "sample_rng(index)" in said
        assert "\n" not in said


def test_it_costs_sixteen_reads_and_no_random_number():
    data = Shifted(DRAWS["random"])
    session = session_of(data)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(()).item()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    random_reads(session)
    assert data.num_reads == 16
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == expected


@pytest.mark.parametrize("name", ["random", "numpy.random", "torch"])
@pytest.mark.parametrize("kind", [Shifted, Many])
def test_seeded_reads_give_a_sample_the_same_values_in_any_batch(kind, name):
    source = seeded(Source(kind(DRAWS[name])))
    with generators_kept(torch.device("cpu")):
        both = source.fetch(torch.tensor([3, 5]))
        alone = source.fetch(torch.tensor([5]))
    assert torch.equal(both[0][1:], alone[0])
    assert not torch.equal(both[0][1] - 5, both[0][0] - 3)  # each sample has its own draw


def test_data_that_make_their_batches_are_read_as_they_are():
    data = Batches(DRAWS["none"])
    assert torch.equal(
        seeded(Source(data)).fetch(torch.tensor([3, 5]))[0], Source(data).fetch(torch.tensor([3, 5]))[0]
    )


class Jittered:
    def __init__(self):
        self.num_begun = 0

    def __iter__(self):
        self.num_begun += 1
        return (torch.rand(4) for _ in range(24))


def test_a_stream_is_read_only_where_the_self_check_needs_it():
    items = Jittered()
    assert random_reads(session_of(Stream(items, 24))) == ""
    assert items.num_begun == 0
    assert "Seed the stream" in random_reads(session_of(Stream(items, 24), accumulation=2))
    source = Source(Stream(items, 24))
    assert seeded(source) is source


def test_the_shares_of_two_ranks_are_the_window_of_one():
    session = session_of(TensorDataset(torch.arange(24.0), torch.arange(24.0)))
    source = session.loader.source
    whole = next(iter(reader(session, source, num=5))).data[0]
    parts = [next(iter(reader(session, source, num=5, rank=rank, num_ranks=2))).data[0] for rank in range(2)]
    assert torch.equal(torch.cat(parts), whole)
