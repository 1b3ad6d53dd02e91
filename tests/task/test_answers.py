"""Every wrong answer of a loss gets the repair for it."""

import types

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.task import LossDoor, Task
from hemostat.task.answers import check_count, check_total, described

MODEL = nn.Linear(4, 3)
X, Y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])


def compute(**methods):
    return LossDoor(type("Digits", (Task,), methods)()).compute(MODEL, (X, Y))


WRONG_LOSS = [
    (
        lambda o, y: o.sum(1),
        r"Digits\.loss returned a tensor of shape \(6,\): return \(loss\.sum\(\), loss\.numel\(\)\)",
    ),
    (lambda o, y: o.mean(), r"Digits\.loss returned one number: a sum and its count are needed"),
    (lambda o, y: None, r"Digits\.loss returned None: return a tuple \(sum, count\)"),
    (lambda o, y: [o.sum(), 6], r"returned a list of 2: return a tuple"),
    (lambda o, y: (o.sum(), 6, o), r"returned a tuple of 3: return a tuple"),
    (lambda o, y: {"loss": o.sum()}, r"returned a dict: return a tuple"),
    (lambda o, y: (o.sum(1), 6), r"returned a tensor of shape \(6,\)"),
    (lambda o, y: (o.sum(1, keepdim=True)[:1], 6), r"returned a tensor of shape \(1, 1\)"),
    (
        lambda o, y: (o.sum().item(), 6),
        r"gave a loss of type float, which has no gradient.*without \.item\(\)",
    ),
    (lambda o, y: (6, o.sum()), r"gave a loss of type int"),
    (lambda o, y: (y.sum(), 6), r"dtype torch\.int64.*loss first and the count second"),
    (lambda o, y: (o.sum().detach(), 6), r"does not depend on any trainable parameter"),
    (lambda o, y: (o.sum(), y != 0), r"returned a count of shape \(6,\): return its sum, count\.sum\(\)"),
    (lambda o, y: (o.sum(), "6"), r"returned a count of type str"),
    (lambda o, y: (o.sum(), None), r"returned a count of type NoneType"),
    (lambda o, y: (o.sum(), True), r"returned a count of type bool"),
    (lambda o, y: (o.sum(), -1), r"returned count=-1: a count is 0 or more"),
    (lambda o, y: (o.sum(), float("nan")), r"returned count=nan"),
]


@pytest.mark.parametrize(("answer", "message"), WRONG_LOSS)
def test_wrong_answers_of_loss(answer, message):
    with pytest.raises(TaskError, match=message):
        compute(loss=lambda self, output, target: answer(output, target))


WRONG_STEP = [
    (lambda loss: None, r"Digits\.step returned None: return the mean loss"),
    (lambda loss: types.SimpleNamespace(loss=None), r"SimpleNamespace whose loss is None.*labels"),
    (lambda loss: {"loss": None}, r"dict whose loss is None"),
    (lambda loss: {"logits": loss}, r"gave a loss of type dict"),
    (lambda loss: loss.item(), r"gave a loss of type float"),
    (lambda loss: torch.stack([loss, loss]), r"returned a tensor of shape \(2,\): return loss\.mean\(\)"),
    (lambda loss: (loss, loss, loss), r"gave a loss of type tuple"),
    (lambda loss: (loss, -2), r"returned count=-2"),
    (lambda loss: loss.detach(), r"does not depend on any trainable parameter"),
]


@pytest.mark.parametrize(("answer", "message"), WRONG_STEP)
def test_wrong_answers_of_step(answer, message):
    with pytest.raises(TaskError, match=message):
        compute(step=lambda self, model, batch: answer(model(batch[0]).mean()))


@pytest.mark.parametrize("count", [0, 6, 2.5, torch.tensor(0), torch.tensor(6.0)])
def test_counts_that_are_right(count):
    assert check_count(count, "Digits.loss") is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_is_a_loss(dtype):
    assert check_total(torch.ones((), dtype=dtype, requires_grad=True), "Digits.loss", "a sum") is None


def test_subclasses_of_tensor_are_tensors():
    total = nn.Parameter(torch.ones(()))
    assert check_total(total, "Digits.loss", "a sum") is None


def test_values_are_described_by_shape_not_by_content():
    assert (
        described((torch.zeros(1000, 3), 0.5, "word", None))
        == "(a tensor of shape (1000, 3), 0.5, 'word', a NoneType)"
    )
