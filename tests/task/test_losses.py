"""The two doors of the loss: exact sums, and a repair for everything else that people return."""

import types
from collections import OrderedDict

import pytest
import torch
from torch import nn

from hemostat.errors import GuardStop, TaskError
from hemostat.task import LossDoor, Task

torch.manual_seed(0)
MODEL = nn.Linear(4, 3)
X, Y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
SUM = nn.functional.cross_entropy(MODEL(X), Y, reduction="sum").item()


def task_with(loss=None, step=None, metrics=None, split=None):
    given = {"loss": loss, "step": step, "metrics": metrics, "split": split}
    return type("Digits", (Task,), {name: method for name, method in given.items() if method})()


def compute(batch=(X, Y), model=MODEL, **methods):
    return LossDoor(task_with(**methods)).compute(model, batch)


def cross_entropy_sum(self, output, target):
    return nn.functional.cross_entropy(output, target, reduction="sum"), target.numel()


def mean_step(self, model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def test_first_door():
    loss = compute(loss=cross_entropy_sum)
    assert loss.sum.item() == pytest.approx(SUM)
    assert loss.count == 6
    assert loss.output.shape == (6, 3)
    assert loss.target is Y
    assert loss.sum.requires_grad


def test_a_count_on_the_device_stays_there():
    loss = compute(loss=lambda self, output, target: (output.sum(), (target != 0).sum()))
    assert isinstance(loss.count, torch.Tensor)
    assert loss.count.item() == 4


def test_several_inputs_by_position_and_by_name():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, a, b):
            return (a - 2 * b) * self.weight

    a, b, target = torch.ones(3), torch.ones(3), torch.zeros(3)
    door = LossDoor(task_with(loss=lambda self, output, target: ((output - target).sum(), len(target))))
    assert door.compute(Sum(), (a, b, target)).sum.item() == -3
    assert door.compute(Sum(), {"b": b, "a": a, "labels": target}).sum.item() == -3


def test_a_split_of_ones_own():
    def split(self, batch):
        return (batch[:, :4],), {}, batch[:, 4].long()

    batch = torch.cat([X, Y[:, None].float()], 1)
    assert compute(batch=batch, loss=cross_entropy_sum, split=split).sum.item() == pytest.approx(SUM)


class Output(OrderedDict):
    """Like the outputs of Hugging Face models: a dict with attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.mark.parametrize(
    "wrap",
    [
        lambda loss: loss,
        lambda loss: (loss, 6),
        lambda loss: (loss, torch.tensor(6)),
        lambda loss: types.SimpleNamespace(loss=loss, logits=X),
        lambda loss: Output(loss=loss, logits=X),
        lambda loss: {"loss": loss, "logits": X},
    ],
)
def test_second_door_turns_means_into_sums(wrap):
    """T021."""
    loss = compute(step=lambda self, model, batch: wrap(mean_step(self, model, batch)))
    assert loss.sum.item() == pytest.approx(SUM, rel=1e-6)
    assert float(loss.count) == 6
    assert loss.target is not None


def test_the_object_with_a_loss_is_kept_for_metrics():
    output = compute(
        step=lambda self, model, batch: Output(loss=mean_step(self, model, batch), logits=X)
    ).output
    assert output.logits is X


def test_a_mean_over_tokens_needs_its_own_count():
    tokens = torch.tensor([[1, 2, -100], [1, -100, -100]])

    def step(self, model, batch):
        return model(X[:2]).mean(), (batch != -100).sum()

    loss = compute(batch=tokens, step=step)
    assert loss.count.item() == 3
    assert loss.sum.item() == pytest.approx(3 * MODEL(X[:2]).mean().item())


@pytest.mark.parametrize("count", [0, torch.tensor(0)])
def test_a_mean_over_nothing_counts_nothing_and_moves_nothing(count):
    weight = nn.Parameter(torch.ones(3, 5))
    target = torch.full((3,), -100)
    loss = compute(step=lambda self, model, batch: (nn.functional.cross_entropy(weight * 1.0, target), count))
    assert loss.sum.item() == 0.0
    loss.sum.backward()
    assert torch.equal(weight.grad, torch.zeros(3, 5))


def test_count_0_is_accepted_by_the_first_door():
    loss = compute(loss=lambda self, output, target: (output.sum() * 0, 0))
    assert (loss.sum.item(), loss.count) == (0.0, 0)


def test_without_gradients_a_loss_needs_none():
    with torch.no_grad():
        assert not compute(loss=cross_entropy_sum).sum.requires_grad


def test_exceptions_of_the_user_name_their_line():
    def loss(self, output, target):
        return output.no_such_name

    with pytest.raises(TaskError) as caught:
        compute(loss=loss)
    line = loss.__code__.co_firstlineno + 1
    assert str(caught.value).startswith("Digits.loss raised AttributeError: 'Tensor' object has no attribute")
    assert f"test_losses.py:{line}." in str(caught.value)


def test_one_sample_alone_in_batch_norm_has_its_repair():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    assert compute(model=model, loss=cross_entropy_sum).count == 6
    for door in ({"loss": cross_entropy_sum}, {"step": mean_step}):
        with pytest.raises(
            TaskError, match=r"one sample alone reached BatchNorm.*global_batch.*GroupNorm"
        ) as caught:
            compute(batch=(X[:1], Y[:1]), model=model, **door)
        assert "\n" not in str(caught.value)


def test_a_model_that_does_not_fit_the_data_names_the_users_line():
    with pytest.raises(TaskError, match=r"raised RuntimeError: mat1 and mat2 shapes cannot be multiplied"):
        compute(model=nn.Linear(5, 3), loss=cross_entropy_sum)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("full"), GuardStop("guard"), torch.distributed.DistError("peer")]
)
def test_failures_of_the_machine_pass_as_they_are(error):
    def loss(self, output, target):
        raise error

    with pytest.raises(type(error)) as caught:
        compute(loss=loss)
    assert caught.value is error


def test_one_door_and_only_one():
    with pytest.raises(TaskError, match="Digits has no loss: write loss"):
        LossDoor(task_with())
    with pytest.raises(TaskError, match=r"Digits has both loss\(\) and step\(\)"):
        LossDoor(task_with(loss=cross_entropy_sum, step=mean_step))
    assert LossDoor(task_with(step=mean_step)).kind == "step"


def test_means_over_micro_batches_are_exact():
    # 256, 256 and 10 samples: a mean of means weighs the last ten like the others (bug report T058)
    target = torch.randn(522, dtype=torch.float64)
    model = nn.Linear(1, 1).double()
    inputs = torch.ones(522, 1, dtype=torch.float64)

    def loss(self, output, target):
        return (output[:, 0] - target).square().sum(), len(target)

    door = LossDoor(task_with(loss=loss))
    parts = [
        door.compute(model, (inputs[start:stop], target[start:stop]))
        for start, stop in ((0, 256), (256, 512), (512, 522))
    ]
    pooled = sum(part.sum for part in parts) / sum(part.count for part in parts)
    assert pooled.item() == pytest.approx((model(inputs)[:, 0] - target).square().mean().item(), rel=1e-12)


@pytest.mark.parametrize(
    ("batch", "given", "fix"),
    [
        (
            (("a", "b"), Y),
            "given a tuple of 2 texts, raised TypeError",
            "Make numbers of text in the data set",
        ),
        (
            (torch.zeros(6, 5), Y),
            r"given a tensor of shape \(6, 5\), raised RuntimeError",
            "Look at what a batch",
        ),
    ],
)
def test_a_librarys_module_that_cannot_take_the_batch_is_told_with_the_users_model(batch, given, fix):
    class Texts(Task):
        def model(self):
            return nn.Linear(4, 3)

        def loss(self, output, target):
            return output.sum(), len(target)

    line = Texts.model.__code__.co_firstlineno
    said = rf"the model of Texts.model \(.*test_losses.py:{line}\), {given}.*{fix}"
    with pytest.raises(TaskError, match=said) as told:
        LossDoor(Texts()).compute(MODEL, batch)
    assert "torch/nn" not in str(told.value)
