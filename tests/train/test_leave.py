"""How a session is left: saved after its loop and after an evaluation that was given up, not after other errors."""

from __future__ import annotations

import signal
import threading

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import Interrupted
from hemostat.recipe import Base
from hemostat.track import Checkpoints
from hemostat.train import Session


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
    base = Base(optimizer="sgd", lr=0.05, tuned_batch=8, epochs=1)
    return Session(torch.nn.Linear(3, 1), None, data, base)


def step(session, inputs, targets):
    session.backward(((session.model(inputs) - targets) ** 2).sum(), count=len(inputs))


def saved_steps(session) -> list[str]:
    return [path.name for path in Checkpoints(session.record.path).published()]


def test_an_evaluation_is_given_up_after_a_signal_and_the_step_is_saved(session):
    seen, rows = [], TensorDataset(torch.randn(640, 1))

    def measure(model, batch):
        seen.append(torch.rand(1))  # an evaluation that draws
        signal.raise_signal(signal.SIGTERM)
        return {"loss": (1.0, 1)}

    with pytest.raises(Interrupted, match="SIGTERM during the evaluation at step 3"), session:
        for batch in session.steps():
            step(session, *batch)
            if session.last.number == 3:
                before = torch.get_rng_state()
                session.evaluate(rows, measure)
    assert 1 <= len(seen) < 20, "80 batches were left out"
    assert torch.equal(torch.get_rng_state(), before)
    assert saved_steps(session) == ["step-000000003"]
    assert session.record.path.joinpath("exit.0.json").read_text().count('"status": 75') == 1


def test_another_error_saves_nothing_and_leaves_no_thread(session):
    with pytest.raises(ValueError, match="mine"), session:
        for batch in session.steps():
            step(session, *batch)
            raise ValueError("mine")
    assert saved_steps(session) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "hemostat-heartbeat"]


def test_a_loop_that_came_to_its_end_is_saved(session):
    with session:
        for batch in session.steps():
            step(session, *batch)
    assert saved_steps(session) == ["step-000000008"]
