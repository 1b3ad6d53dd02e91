"""The end of a window: a loss or a gradient that is not finite changes nothing, on any rank."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings, window_end
from hemostat.train.precision import Precision
from hemostat.train.update import Updater, build_optimizer


def saturated(weights: torch.Tensor, how: str) -> torch.Tensor:
    """A loss that is not finite while its gradient is."""
    return (weights * 1.0).sum() + float(how)


@pytest.mark.filterwarnings("ignore:HG007")
@pytest.mark.parametrize("how", ["inf", "-inf", "nan"])
def test_a_loss_that_is_not_finite_is_skipped_though_its_gradient_is_finite(how):
    model = torch.nn.Linear(2, 1)
    before = [param.detach().clone() for param in model.parameters()]
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=4, epochs=1)
    settings = TrainSettings(record=False, self_check=False, max_skips=3)
    data = TensorDataset(torch.ones(16, 2))
    with Session(model, None, data, base, settings=settings) as session:
        for number, (inputs,) in enumerate(session.steps()):
            session.backward(saturated(session.model(inputs), how if number != 2 else "0"), count=len(inputs))
            after = [param.detach().clone() for param in model.parameters()]
            moved = not all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
            assert moved == session.last.applied == (number == 2)
            before = after
    assert (session.skipped_steps, session.applied_steps) == (3, 1)
    assert session.outcome.skipped_steps == 3


def square_sum(session: Session, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return ((session.model(batch[0]) - batch[1]) ** 2).sum()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def half_finite(on_rank: int) -> dict[str, object]:
    """Loss or gradient of one rank is not finite, the other of the two is."""
    notes = []
    torch.manual_seed(0)
    inputs = torch.randn(32, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=8, epochs=2)
    settings = TrainSettings(record=False, max_skips=2)
    with Session(torch.nn.Linear(4, 1), None, data, base, settings=settings) as session:
        for number, batch in enumerate(session.steps(), start=1):
            loss = square_sum(session, batch)
            if rank() == on_rank and number == 2:
                loss = loss + float("inf")  # its gradient stays
            if rank() == on_rank and number == 4:
                loss.register_hook(lambda grad: grad * float("nan"))
            session.backward(loss, count=len(batch[0]))
            notes.append(session.last.applied)
        return {
            "applied": notes,
            "weights": [param.detach().clone() for param in session.model.parameters()],
            "found": [finding.message for finding in session.outcome.findings],
        }


def test_loss_or_gradient_that_is_not_finite_on_one_rank_is_skipped_by_all_and_named(ranks):
    """T074, T075, T077."""
    first, second = ranks(2, half_finite, 1)
    assert first["applied"] == second["applied"] == [True, False, True, False, True, True, True, True]
    assert all(torch.equal(a, b) for a, b in zip(first["weights"], second["weights"], strict=True))
    assert (
        first["found"]
        == second["found"]
        == [
            "step 2 was skipped on all ranks: loss not finite on rank 1 (epoch 0, samples 12 to 15).",
            "step 4 was skipped on all ranks: gradient not finite on rank 1 (epoch 0, samples 28 to 31).",
        ]
    )


class Devices(TorchDispatchMode):
    """Notes where the tensors of each operation lie."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.num_steps = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        is_step = "_fused_" in str(function)  # some of these have no form without values
        self.num_steps += is_step
        found = None if is_step else function(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves((args, kwargs, found)):
            if isinstance(leaf, torch.Tensor):
                self.seen.add(leaf.device.type)
        return found


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_late_update_on_an_accelerator_asks_it_for_nothing(name, monkeypatch):
    """Tensors without values, which say that they are on a GPU: whoever asks for a value gets an error."""
    monkeypatch.setattr(window_end, "OnItsWay", list)
    cuda = torch.device("cuda", 0)
    with FakeTensorMode():
        params = [torch.nn.Parameter(torch.zeros(size, device=cuda)) for size in ((3, 2), (3,))]
        optimizer = build_optimizer(name, params, {"lr": 0.1, "momentum": 0.9}, fused=True)
        updater = Updater(optimizer, Precision("fp32", cuda), clip_norm=1.0, base_lr=0.1)
        assert updater.skips_on_device
        for param in params:
            param.grad = torch.ones_like(param)
        world = SimpleNamespace(device=cuda, sum_there=lambda values: values)
        session = SimpleNamespace(world=world, updater=updater, precision=Precision("fp32", cuda))
        mine = [torch.full((), 3.0, dtype=torch.float64, device=cuda) for _ in range(3)]
        with Devices() as devices:
            told = window_end._update_late(session, 8, 0.1, mine)
        assert len(told) == 9 and {figure.device for figure in told} == {cuda}
        assert devices.seen == {"cuda"} and devices.num_steps == 1
        with pytest.raises(RuntimeError, match=r"not linked with|_local_scalar_dense"):
            float(told[0])
