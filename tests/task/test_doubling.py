"""The self-check tells sums from means by giving the same samples twice."""

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.task import LossDoor, Task

BATCH = (
    torch.randn(8, 4, generator=torch.Generator().manual_seed(1)),
    torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]),
)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 3))


def check(loss=None, step=None, batch=BATCH, net=None):
    methods = {"loss": loss} if loss else {"step": step}
    return LossDoor(type("Digits", (Task,), methods)()).check(net or model(), batch)


def cross_entropy(output, target, reduction):
    return nn.functional.cross_entropy(output, target, reduction=reduction)


def test_right_losses_pass():
    assert check(loss=lambda s, o, y: (cross_entropy(o, y, "sum"), y.numel())) == ""
    assert check(step=lambda s, m, b: cross_entropy(m(b[0]), b[1], "mean")) == ""
    assert check(step=lambda s, m, b: (cross_entropy(m(b[0]), b[1], "mean"), len(b[1]))) == ""


def test_a_mean_given_as_a_sum():
    with pytest.raises(TaskError, match=r"Digits\.loss returns a mean where a sum belongs.*reduction='sum'"):
        check(loss=lambda s, o, y: (cross_entropy(o, y, "mean"), y.numel()))


@pytest.mark.parametrize("answer", [lambda total, y: total, lambda total, y: (total, len(y))])
def test_a_sum_given_as_a_mean(answer):
    with pytest.raises(TaskError, match=r"Digits\.step returns a sum where a mean belongs"):
        check(step=lambda s, m, b: answer(cross_entropy(m(b[0]), b[1], "sum"), b[1]))


def test_a_count_that_stands_still():
    with pytest.raises(TaskError, match=r"Digits\.loss returns a count that does not grow.*gave 3 again"):
        check(loss=lambda s, o, y: (cross_entropy(o, y, "sum"), o.shape[1]))


def test_a_loss_over_pairs_is_told_but_not_refused():
    note = check(loss=lambda s, o, y: ((o @ o.T).square().sum(), len(y)))
    assert "Digits.loss is no sum over samples (twice the samples gave 4 times the loss)" in note


def test_a_loss_of_zero_or_over_nothing_says_nothing():
    assert check(loss=lambda s, o, y: (o.sum() * 0, len(y))) == ""
    assert check(loss=lambda s, o, y: (o.sum(), 0)) == ""


def test_what_cannot_be_doubled_is_let_pass():
    assert check(step=lambda s, m, b: m(b["x"]).mean(), batch={"x": BATCH[0], "odd": torch.zeros(3)}) == ""


def test_model_and_random_state_are_left_as_they_were():
    net = model()
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.random.get_rng_state()
    check(loss=lambda s, o, y: (cross_entropy(o, y, "sum") + 0 * torch.rand(()), y.numel()), net=net)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert net.training
    assert not net[1].training
    assert all(parameter.grad is None for parameter in net.parameters())
