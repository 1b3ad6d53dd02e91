"""The checks of the trainer, for the loss of a plain loop."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils.data import TensorDataset

from hemostat.errors import GuardStop, HemostatWarning, TaskError
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings, check_loss


def session_of(accumulation: int = 1) -> Session:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(16, 3), torch.randn(16, 3))
    settings = TrainSettings(record=False)
    base = Base(lr=0.1, tuned_batch=8)
    return Session(torch.nn.Linear(3, 3), None, data, base, Devices(accumulation=accumulation), settings)


def whole(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(), batch[1].numel()


def mean(model, batch):
    return (model(batch[0]) - batch[1]).square().mean(), len(batch[0])


def standing_count(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(), 8


def in_batch(model, batch):
    logits = model(batch[0]) @ batch[1].T
    return functional.cross_entropy(logits, torch.arange(len(logits)), reduction="sum"), len(logits)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_sum_with_its_count_passes_and_nothing_changes(accumulation):
    session = session_of(accumulation)
    before = [param.detach().clone() for param in session.model.parameters()]
    check_loss(session, whole)
    assert all(torch.equal(*pair) for pair in zip(before, session.model.parameters(), strict=True))
    assert all(param.grad is None for param in session.model.parameters())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (mean, "mean returns a mean where a sum belongs"),
        (standing_count, "standing_count returns a count that does not grow"),
    ],
)
def test_a_wrong_sum_or_count_is_named(wrong, text):
    with pytest.raises(TaskError, match=text):
        check_loss(session_of(), wrong)


def test_a_loss_across_the_batch_is_doubtful_in_one_piece_and_refused_in_two():
    with pytest.warns(HemostatWarning, match="in_batch is no sum over samples"):
        check_loss(session_of(), in_batch)
    with pytest.raises(GuardStop, match="depends on how the batch is cut"):
        check_loss(session_of(accumulation=2), in_batch)
