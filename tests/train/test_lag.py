"""Who reads a step late, and numbers that nobody waits for."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import FieldError
from hemostat.plan import Layout
from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings
from hemostat.train.lag import OnItsWay, on, resolve_lag

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def mesh(device: torch.device, layout: Layout | None = None) -> SimpleNamespace:
    return SimpleNamespace(device=device, layout=layout or Layout())


@pytest.mark.parametrize(
    ("asked", "device", "skips", "value", "why"),
    [
        (None, CPU, True, 0, "a CPU is not ahead of its host"),
        (None, CUDA, True, 1, "skipped there"),
        (None, CUDA, False, 0, "cannot skip a step on the device"),
        (0, CUDA, True, 0, "asked for"),
        (1, CPU, True, 1, "skipped there"),
    ],
)
def test_an_accelerator_is_read_late_where_its_optimizer_can_skip(asked, device, skips, value, why):
    row = resolve_lag(TrainSettings(lag_steps=asked), mesh(device), skips)
    assert (row.field, row.value) == ("train.lag_steps", value)
    assert why in row.why


def test_other_layouts_are_read_at_once():
    sharded = mesh(CUDA, Layout(fsdp=2))
    assert resolve_lag(TrainSettings(), sharded, True).value == 0
    with pytest.raises(FieldError, match="layout fsdp=2 reads each step at once"):
        resolve_lag(TrainSettings(lag_steps=1), sharded, True)


def test_a_lag_is_none_or_one():
    with pytest.raises(FieldError, match="must be 0 or 1"):
        TrainSettings(lag_steps=2)


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        (None, None),
        (lambda params: torch.optim.AdamW(params, lr=0.1, fused=True), None),
        (lambda params: torch.optim.AdamW(params, lr=0.1), "fused=True"),
        (lambda params: torch.optim.NAdam(params, lr=0.1), "fused=True"),
    ],
)
def test_a_session_asks_its_optimizer_and_records_the_answer(optimizer, said):
    model = torch.nn.Linear(2, 1)
    given = None if optimizer is None else optimizer(model.parameters())
    base = Base(optimizer="adamw", lr=0.1, tuned_batch=4)
    settings = TrainSettings(record=False, lag_steps=1)
    data = TensorDataset(torch.randn(8, 2))
    if said:
        with pytest.raises(FieldError, match=said):
            Session(model, given, data, base, settings=settings)
        return
    session = Session(model, given, data, base, settings=settings)
    assert session.lag_steps == 1
    assert session.recipe.values[-1].field == "train.lag_steps"


def test_numbers_stay_where_they_are():
    value = torch.tensor(0.1)
    number = on(CPU)(value)
    assert number.dtype == torch.float64 and number.item() == float(value)
    assert on(torch.device("meta"))(3).device.type == "meta"


def test_figures_arrive_in_their_order():
    assert OnItsWay([torch.tensor(float(n), dtype=torch.float64) for n in range(4)]).read() == [0, 1, 2, 3]
