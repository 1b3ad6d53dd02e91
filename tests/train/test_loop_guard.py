"""Each mistake of a loop gives one error with its repair."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.data import MicroBatch
from hemostat.errors import TaskError
from hemostat.recipe import Base, Devices
from hemostat.train import Session, TrainSettings
from hemostat.train.loop_guard import LoopGuard

QUIET = TrainSettings(record=False)


def open_session(optimizer_of=None, devices: Devices | None = None) -> Session:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = optimizer_of(model.parameters()) if optimizer_of else None
    data = TensorDataset(torch.randn(16, 3))
    return Session(model, optimizer, data, Base(lr=0.1, tuned_batch=8, epochs=2), devices, QUIET)


def loss_of(session: Session, batch) -> torch.Tensor:
    return session.model(batch[0]).square().sum()


def test_a_loop_outside_of_the_run_is_refused():
    session = open_session()
    with pytest.raises(TaskError, match="Write `with Session"):
        next(session.steps())
    with session:
        pass
    with pytest.raises(TaskError, match="outside of a run"):
        next(session.steps())


def test_a_loop_over_epochs_is_refused_after_the_first():
    with open_session() as session, pytest.raises(TaskError, match="Leave out the loop over epochs"):
        for _ in range(2):
            for batch in session.steps():
                session.backward(loss_of(session, batch), len(batch[0]))
    assert session.last.samples == 32


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda loss: loss.repeat(3), r"shape \(3,\). Give a 0-d tensor"),
        (lambda loss: loss.item(), "type float. Give a 0-d tensor"),
        (lambda loss: loss.detach(), r"without a gradient. Leave out detach\(\)"),
    ],
)
def test_a_loss_that_is_no_sum_is_refused(wrong, text):
    with open_session() as session, pytest.raises(TaskError, match=text):
        for batch in session.steps():
            session.backward(wrong(loss_of(session, batch)), len(batch[0]))


def test_a_second_backward_on_one_batch_is_refused():
    with open_session() as session, pytest.raises(TaskError, match="with the sum of all its losses"):
        for batch in session.steps():
            session.backward(loss_of(session, batch), len(batch[0]))
            session.backward(loss_of(session, batch), len(batch[0]))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (torch.ones(3), r"count of shape \(3,\). Give its sum"),
        (float("nan"), "count=nan: must be a number"),
        (-1, "count=-1: must be a number"),
        ("8", "count='8': must be a number"),
    ],
)
def test_a_count_that_is_none_is_refused(count, text):
    with open_session() as session, pytest.raises(TaskError, match=text):
        for batch in session.steps():
            session.backward(loss_of(session, batch), count)


@pytest.mark.parametrize("count", [8, 8.0, torch.tensor(8)])
def test_counts_of_any_kind_are_taken(count):
    with open_session() as session:
        for batch in session.steps():
            session.backward(loss_of(session, batch), count)
    assert session.applied_steps == 4


LINE = torch.nn.Linear(3, 1)


@pytest.mark.parametrize(
    ("model", "optimizer", "base", "text"),
    [
        (torch.nn.Linear, None, Base(), "model is the class Linear"),
        (LINE, torch.optim.SGD, Base(), "optimizer is the class SGD"),
        (LINE, "sgd", Base(), "optimizer is a str"),
        (
            LINE,
            torch.optim.SGD(torch.nn.Linear(3, 1).parameters(), lr=0.1),
            Base(),
            "no parameter of the model",
        ),
        (LINE, None, {"lr": 0.1}, "base is a dict"),
    ],
)
def test_what_no_session_can_be_built_of_is_named(model, optimizer, base, text):
    with pytest.raises(TaskError, match=text):
        Session(model, optimizer, TensorDataset(torch.ones(4, 3)), base, settings=QUIET)


def make_sgd(params) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=0.1)


def test_cleared_gradients_are_seen_in_the_middle_of_a_window():
    optimizers = []
    session = open_session(
        lambda params: optimizers.append(make_sgd(params)) or optimizers[0], Devices(accumulation=2)
    )
    with session, pytest.raises(TaskError, match=r"Leave out optimizer.zero_grad\(\)"):
        for batch in session.steps():
            optimizers[0].zero_grad()
            session.backward(loss_of(session, batch), len(batch[0]))


def test_clearing_between_windows_does_no_harm():
    optimizers = []
    session = open_session(lambda params: optimizers.append(make_sgd(params)) or optimizers[0])
    with session:
        for batch in session.steps():
            optimizers[0].zero_grad()
            session.backward(loss_of(session, batch), len(batch[0]))
    assert session.applied_steps == 4


def test_with_several_ranks_the_loss_must_come_from_the_watched_model():
    guard, model = LoopGuard(num_ranks=2), torch.nn.Linear(1, 1)
    batch = MicroBatch(torch.ones(1, 1), 1, 2, True, 2)
    guard.watch(model)
    loss = model(torch.ones(1, 1)).sum()
    guard.before_backward(batch, loss, 1)
    guard.hand_out()
    with pytest.raises(TaskError, match=r"not computed by session\.model"):
        guard.before_backward(batch, loss, 1)


def test_a_session_inside_of_a_session_is_a_run_of_its_own():
    def run(session: Session, inner) -> float:
        with session:
            for batch in session.steps():
                inner()
                session.backward(loss_of(session, batch), len(batch[0]))
        return session.last.loss

    alone = run(open_session(), lambda: None)
    outer = open_session()
    assert run(outer, lambda: run(open_session(), lambda: None)) == alone
    assert outer.outcome.reason == "the run reached its end"
