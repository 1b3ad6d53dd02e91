"""N ranks, accumulated or not, ragged or not, make the same run as one process on the same batches (float64)."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings

SETTINGS = TrainSettings(record=False, precision="fp32")


def make_data(num_samples: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(num_samples, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (num_samples,), generator=generator)
    counted = (torch.rand(num_samples, generator=generator) > 0.4).double()  # ranks hold unlike counts
    return TensorDataset(inputs, targets, counted)


def make_model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()


def loss_of(output: torch.Tensor, targets: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    return (torch.nn.functional.cross_entropy(output, targets, reduction="none") * counted).sum()


def trained(num_samples: int, global_batch: int, accumulation: int, optimizer: str) -> dict[str, object]:
    base = Base(optimizer=optimizer, lr=0.05, tuned_batch=global_batch, epochs=2, clip_norm=0.7, momentum=0.9)
    devices = Devices(global_batch=global_batch, accumulation=accumulation)
    steps = []
    with Session(make_model(), None, make_data(num_samples), base, devices, SETTINGS) as session:
        for inputs, targets, counted in session.steps():
            session.backward(loss_of(session.model(inputs), targets, counted), count=counted.sum())
            if session.at_window_end:
                steps.append(session.last)
        judged = session.evaluate(make_data(11), measure)
    return {
        "weights": [param.detach().clone() for param in session.model.parameters()],
        "steps": [(step.samples, step.loss, step.lr, step.grad_norm) for step in steps],
        "judged": judged,
    }


def measure(model: torch.nn.Module, batch: object) -> dict[str, tuple[float, float]]:
    inputs, targets, counted = batch
    output = model(inputs)
    right = ((output.argmax(1) == targets) * counted).sum()
    return {"loss": (loss_of(output, targets, counted), counted.sum()), "accuracy": (right, counted.sum())}


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize(
    ("num_samples", "global_batch", "accumulation"),
    [(24, 12, 1), (23, 12, 1), (23, 12, 2), (25, 7, 1), (13, 6, 3)],
    ids=["even", "ragged end", "ragged accumulated", "indivisible batch", "window of one"],
)
def test_ranks_equal_one_process(ranks, num_ranks, num_samples, global_batch, accumulation):
    """T031, T057."""
    if accumulation * num_ranks > global_batch:
        accumulation = 1
    alone = trained(num_samples, global_batch, 1, "sgd")
    together = ranks(num_ranks, trained, num_samples, global_batch, accumulation, "sgd")
    for result in together:
        assert len(result["steps"]) == len(alone["steps"])
        for seen, expected in zip(result["steps"], alone["steps"], strict=True):
            assert seen == pytest.approx(expected, rel=1e-12, abs=1e-12)
        for seen, expected in zip(result["weights"], alone["weights"], strict=True):
            torch.testing.assert_close(seen, expected, rtol=0, atol=1e-12)
        assert result["judged"] == pytest.approx(alone["judged"], rel=1e-12)


def test_adam_too(ranks):
    alone = trained(23, 12, 1, "adamw")
    for result in ranks(2, trained, 23, 12, 2, "adamw"):
        for seen, expected in zip(result["weights"], alone["weights"], strict=True):
            torch.testing.assert_close(seen, expected, rtol=0, atol=1e-10)  # Adam divides by small numbers


def test_ranks_end_with_equal_bits(ranks):
    first, second = ranks(2, trained, 23, 12, 1, "sgd")
    assert first["steps"] == second["steps"]
    assert first["judged"] == second["judged"]
    assert all(torch.equal(a, b) for a, b in zip(first["weights"], second["weights"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_eight_ranks_too(ranks, accumulation):
    alone = trained(45, 21, 1, "sgd")
    for result in ranks(8, trained, 45, 21, accumulation, "sgd"):
        for seen, expected in zip(result["weights"], alone["weights"], strict=True):
            torch.testing.assert_close(seen, expected, rtol=0, atol=1e-12)
        assert result["judged"] == pytest.approx(alone["judged"], rel=1e-12)
