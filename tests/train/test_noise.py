import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings

TRUE_SCALE = 50.0


class Shift(torch.nn.Module):
    """Loss -(x . w): the gradient of a sample is its own x, so G and Sigma are those of the data."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(20))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.weight


def measured(precision: str = "fp32", **batch: int) -> float | None:
    generator = torch.Generator().manual_seed(3)
    mean, deviation = (1 / 20) ** 0.5, (TRUE_SCALE / 20) ** 0.5  # |G|^2 = 1, tr(Sigma) = 50
    data = TensorDataset(mean + deviation * torch.randn(16384, 20, generator=generator))
    base = Base(optimizer="sgd", lr=1e-3, tuned_batch=64, epochs=2)
    settings = TrainSettings(record=False, precision=precision)
    with Session(Shift(), None, data, base, Devices(global_batch=64, **batch), settings) as session:
        for (inputs,) in session.steps():
            session.backward(
                -session.model(inputs).sum(), count=2 * len(inputs)
            )  # a count that is not the samples
    return session.outcome.critical_batch


def test_accumulation_shows_the_noise_scale_on_one_process():
    assert measured(accumulation=4) == pytest.approx(TRUE_SCALE, rel=0.4)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_fp16_scaling_does_not_change_it():
    assert measured("fp16", accumulation=4) == pytest.approx(measured(accumulation=4), rel=0.1)


def test_one_micro_batch_on_one_process_says_nothing():
    assert measured() is None


def test_ranks_show_it_too(ranks):
    first, second = ranks(2, measured)
    assert first == second == pytest.approx(TRUE_SCALE, rel=0.4)
