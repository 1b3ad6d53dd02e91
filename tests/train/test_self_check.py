import math
import random

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import GuardStop
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.repeats import random_reads
from hemostat.train.self_check import self_check


@pytest.fixture
def session():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=12)
    with Session(model, None, data, base, Devices(accumulation=3), TrainSettings(record=False)) as opened:
        yield opened


def squares(model, batch):
    return ((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[0])


def test_accumulation_is_checked_on_one_process_too(session):
    found = self_check(session, squares)
    assert found.ratio == pytest.approx(1.0, abs=1e-6)
    assert found.difference < 1e-6


def test_nothing_is_left_behind(session):
    before = [param.detach().clone() for param in session.model.parameters()]
    random_state = torch.get_rng_state()
    self_check(session, squares)
    assert all(torch.equal(a, b) for a, b in zip(before, session.model.parameters(), strict=True))
    assert all(param.grad is None for param in session.model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert session.model.training and session.precision.name == "fp32"
    assert session.window_loss.drain() == (0.0, 0.0)


class Jittered(TensorDataset):
    """`draw` gives the noise; a TensorDataset with a way of its own is read sample by sample."""

    def __init__(self, draw):
        super().__init__(torch.randn(24, 4), torch.randn(24, 1))
        self.draw = draw

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + self.draw(), y


def jittered(draw) -> Session:
    torch.manual_seed(0)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=12)
    settings = TrainSettings(record=False)
    return Session(torch.nn.Linear(4, 1), None, Jittered(draw), base, Devices(accumulation=3), settings)


DRAWS = {
    "torch": lambda: torch.randn(4),
    "random": lambda: random.random(),
    "numpy": lambda: float(np.random.rand()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_data_are_read_alike_on_both_sides(name):
    with jittered(DRAWS[name]) as opened:
        assert random_reads(opened)
        found = self_check(opened, squares, random_data=True)
        assert found.ratio == pytest.approx(1.0, abs=1e-6)
        with pytest.raises(GuardStop, match=r"Return \(sum, count\)"):
            self_check(
                opened,
                lambda model, batch: (squares(model, batch)[0] / len(batch[0]), 1),
                random_data=True,
            )


def test_data_that_stay_random_are_not_compared():
    own = np.random.default_rng(0)
    with jittered(lambda: own.random()) as opened:
        assert random_reads(opened)
        assert math.isnan(self_check(opened, squares, random_data=True).ratio)


def test_nan_in_the_data_is_left_to_the_first_step(session):
    for tensor in session.source.dataset.tensors:
        tensor[:] = float("nan")
    assert math.isnan(self_check(session, squares).ratio)


def test_a_mean_of_means_is_caught(session):
    with pytest.raises(GuardStop, match=r"Return \(sum, count\)"):
        self_check(session, lambda model, batch: (squares(model, batch)[0] / len(batch[0]), 1))


def test_a_loss_that_depends_on_its_neighbours_is_caught(session):
    def contrastive(model, batch):
        output = model(batch[0])
        return ((output - output.mean()) ** 2).sum(), len(batch[0])

    with pytest.raises(GuardStop, match="how the batch is cut"):
        self_check(session, contrastive)


def checked_in_rank(name):
    with jittered(DRAWS[name]) as opened:
        assert opened.world.num_ranks == 2
        return self_check(opened, squares)


@pytest.mark.parametrize("name", DRAWS)
def test_two_ranks_read_random_data_alike(ranks, name):
    for found in ranks(2, checked_in_rank, name):
        assert found.ratio == pytest.approx(1.0, abs=1e-6) and found.difference < 1e-6


def check_of_unlike_statistics():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=12)
    with Session(model, None, data, base, settings=TrainSettings(record=False)) as opened:
        model[1].running_mean += opened.world.rank  # as after a resume
        before = model[1].running_mean.clone()
        found = self_check(opened, squares)
        return found.ratio, torch.equal(model[1].running_mean, before)


def test_ranks_whose_running_statistics_differ_are_no_fault_of_the_loss(ranks):
    for ratio, kept in ranks(2, check_of_unlike_statistics):
        assert ratio == pytest.approx(1.0, abs=1e-5) and kept
