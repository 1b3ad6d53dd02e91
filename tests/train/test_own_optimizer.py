"""What is read off a script's own optimizer."""

from __future__ import annotations

import pytest
import torch

from hemostat.errors import HemostatWarning
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.own_optimizer import fill_base, read_off, warn_of_batch

WEIGHT = torch.nn.Parameter(torch.zeros(2))


def test_what_was_given_stays_where_a_group_has_it():
    base = Base(optimizer="lamb", lr=0.3)
    groups = [{"params": [WEIGHT], "lr": 0.1}, {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": 0.3}]
    assert fill_base(base, torch.optim.SGD(groups)) == base


def test_a_rate_that_no_group_has_gives_way_and_says_so():
    with pytest.warns(HemostatWarning, match="lr=0.3: the optimizer was built with 0.1"):
        assert fill_base(Base(lr=0.3), torch.optim.SGD([WEIGHT], lr=0.1)).lr == 0.1


def test_what_was_left_out_is_read_off():
    filled = fill_base(Base(tuned_batch=8), torch.optim.SGD([WEIGHT], lr=0.1))
    assert (filled.optimizer, filled.lr, filled.tuned_batch) == ("sgd", 0.1, 8)


def test_an_optimizer_without_a_rule_gives_only_its_rate():
    class Strange(torch.optim.Optimizer):
        pass

    assert read_off(Strange([WEIGHT], {"lr": 0.2})) == {"lr": 0.2}


def run(optimizer_of, base: Base, devices: Devices | None = None) -> Session:
    model = torch.nn.Linear(2, 1)
    data = torch.utils.data.TensorDataset(torch.randn(16, 2))
    settings = TrainSettings(record=False)
    with Session(model, optimizer_of(model), data, base, devices, settings) as session:
        for (inputs,) in session.steps():
            session.backward(session.model(inputs).sum(), len(inputs))
    return session


def test_the_rule_is_that_of_the_optimizer_that_was_given():
    base = Base(lr=0.1, tuned_batch=4)
    session = run(lambda model: torch.optim.SGD(model.parameters(), lr=0.1), base, Devices(global_batch=8))
    assert session.recipe.lr == pytest.approx(0.2)  # linear; AdamW, the default, would give a square root


def test_a_warm_up_scheduler_is_named_and_leaves_the_rate_alone():
    def with_warm_up(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10))
        assert optimizer.param_groups[0]["lr"] == 0.0
        return optimizer

    optimizers = []
    with pytest.warns(HemostatWarning, match="Leave the scheduler out"):
        run(
            lambda model: optimizers.append(with_warm_up(model)) or optimizers[0],
            Base(lr=0.1, tuned_batch=4, schedule="constant"),
        )
    assert optimizers[0].param_groups[0]["lr"] == pytest.approx(0.1)


def test_another_batch_of_the_loader_is_named():
    warn_of_batch(None, 32)
    warn_of_batch(32, 32)
    with pytest.warns(HemostatWarning, match="tuned_batch=32: train_data is a DataLoader with batch 8"):
        warn_of_batch(8, 32)
