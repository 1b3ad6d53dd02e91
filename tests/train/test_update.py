import math

import pytest
import torch

from hemostat.errors import TaskError
from hemostat.train.precision import Precision
from hemostat.train.update import Updater, build_optimizer, total_norm

CPU = torch.device("cpu")


def one_weight(gradient: list[float], **settings: float) -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    weight = torch.nn.Parameter(torch.zeros(len(gradient), dtype=torch.float64))
    weight.grad = torch.tensor(gradient, dtype=torch.float64)
    return weight, build_optimizer("sgd", [weight], {"lr": 1.0, **settings})


def test_the_factor_is_applied_once_and_before_the_clip():
    weight, optimizer = one_weight([3.0, 4.0])
    update = Updater(optimizer, Precision("fp32", CPU), clip_norm=1.0, base_lr=1.0).apply(0.5, lr=2.0)
    assert update == (True, 2.5)  # norm of the mean gradient, before clipping
    torch.testing.assert_close(weight.detach(), torch.tensor([-1.2, -1.6], dtype=torch.float64))


def test_below_the_threshold_nothing_is_clipped():
    weight, optimizer = one_weight([0.3, 0.4])
    Updater(optimizer, Precision("fp32", CPU), clip_norm=1.0, base_lr=1.0).apply(1.0, lr=1.0)
    torch.testing.assert_close(weight.detach(), torch.tensor([-0.3, -0.4], dtype=torch.float64))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(bad):
    weight, optimizer = one_weight([1.0, bad], momentum=0.9)
    update = Updater(optimizer, Precision("fp32", CPU), clip_norm=1.0, base_lr=1.0).apply(1.0, lr=1.0)
    assert not update.applied
    assert weight.detach().tolist() == [0.0, 0.0]
    assert weight.grad is None and not optimizer.state


def test_a_window_without_items_is_skipped():
    weight, optimizer = one_weight([1.0])
    assert not Updater(optimizer, Precision("fp32", CPU), None, base_lr=1.0).apply(0.0, lr=1.0).applied
    assert weight.item() == 0.0


def test_the_ratio_between_groups_survives_every_step():
    first, second = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": [second], "lr": 0.01}])
    updater = Updater(optimizer, Precision("fp32", CPU), None, base_lr=0.1)
    for lr in (0.05, 0.4):
        first.grad, second.grad = torch.ones(1), torch.ones(1)
        updater.apply(1.0, lr)
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([lr, lr / 10])


def test_fp16_unscales_once_and_halves_the_scale_after_an_overflow():
    weight, optimizer = one_weight([math.inf])
    precision = Precision("fp16", CPU)
    updater = Updater(optimizer, precision, None, base_lr=1.0)
    precision.backward((weight * 1.0).sum())  # starts the scaler
    assert not updater.apply(1.0, 1.0).applied
    assert precision.scaler.get_scale() == 32768.0
    precision.backward((weight * 2.0).sum())
    update = updater.apply(1.0, 1.0)
    assert update.applied and update.grad_norm == pytest.approx(2.0)
    assert weight.item() == pytest.approx(-2.0)


def test_total_norm_equals_torch():
    grads = [torch.randn(3, 4), torch.randn(7)]
    flat = torch.cat([grad.flatten() for grad in grads])
    assert total_norm(grads) == pytest.approx(flat.norm().item(), rel=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "rmsprop", "adagrad"])
def test_every_known_optimizer_is_built_with_its_settings(name):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = build_optimizer(
        name, [weight], {"lr": 0.3, "beta2": 0.95, "weight_decay": 0.01, "momentum": 0.8}
    )
    assert optimizer.defaults["lr"] == 0.3 and optimizer.defaults["weight_decay"] == 0.01
    assert optimizer.defaults.get("betas", (0.9, 0.95))[1] == 0.95
    assert optimizer.defaults.get("momentum", 0.8) == 0.8


def test_an_optimizer_that_torch_lacks_is_left_to_the_task():
    with pytest.raises(TaskError, match=r"Return yours from optimizer\(self, params\)"):
        build_optimizer("lamb", [torch.nn.Parameter(torch.zeros(1))], {"lr": 0.1})


def fused(kind: type[torch.optim.Optimizer], **settings: float) -> tuple[torch.nn.Parameter, Updater]:
    weight = torch.nn.Parameter(torch.ones(2))
    return weight, Updater(kind([weight], lr=1.0, fused=True, **settings), Precision("fp32", CPU), 1.0, 1.0)


@pytest.mark.parametrize(
    ("factor", "finite", "applied"), [(0.3, True, True), (0.3, False, False), (0.0, True, False)]
)
def test_on_the_device_the_step_is_the_same_or_none(factor, finite, applied):
    found = []
    for there in (False, True):
        weight, updater = fused(torch.optim.SGD, momentum=0.9)
        weight.grad = torch.tensor([3.0, 4.0])
        updater.apply(1.0, lr=0.1)  # sets up the momentum
        weight.grad = torch.tensor([3.0, 4.5])
        before = weight.detach().clone()
        if there:
            scalar = torch.tensor(factor, dtype=torch.float64)
            update = updater.apply_on_device(scalar, 0.2, torch.tensor(finite))
        else:
            update = updater.apply(factor, 0.2, finite=finite)
        assert torch.equal(before, weight) is not applied and weight.grad is None
        momentum = updater.optimizer.state[weight]["momentum_buffer"]
        found.append((weight.tolist(), momentum.tolist(), bool(update.applied), float(update.grad_norm)))
    assert found[0] == found[1] and found[0][2] is applied


def test_a_parameter_has_begun_with_a_step_that_was_applied():
    weight, updater = fused(torch.optim.SGD, momentum=0.9)
    for grad, begun in (([math.nan, 1.0], False), ([1.0, 1.0], True)):
        weight.grad = torch.tensor(grad)
        assert not updater.has_begun
        updater.apply(1.0, 0.1)
        weight.grad = torch.ones(2)
        assert updater.has_begun is begun
