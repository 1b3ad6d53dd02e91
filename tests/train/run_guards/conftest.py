"""A session over a line, and runs of it with a hand on each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from hemostat.errors import HemostatWarning
from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings

Hand = Callable[[Session, int, torch.Tensor], torch.Tensor]


def run(hand: Hand, epochs: float = 4, **settings: Any) -> Session:
    """Train; `hand(session, step, loss_sum)` gives the loss that goes backward."""
    torch.manual_seed(0)
    inputs = torch.randn(400, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True) + 0.1 * torch.randn(400, 1))
    base = Base(optimizer="sgd", lr=0.01, tuned_batch=10, epochs=epochs)
    quiet = TrainSettings(**({"record": False} | settings))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(torch.nn.Linear(4, 1), None, data, base, settings=quiet) as session:
            for step, (x, y) in enumerate(session.steps(), start=1):
                loss = ((session.model(x) - y) ** 2).sum()
                session.backward(hand(session, step, loss), count=len(x))
    return session


@pytest.fixture(name="run")
def _run():
    return run
