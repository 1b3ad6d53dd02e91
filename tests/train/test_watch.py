"""By itself a watch changes nothing; one of your own is told of every micro-batch."""

from __future__ import annotations

import torch
from torch.utils.data import TensorDataset

from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings
from hemostat.train.watch import Watch


def test_a_session_tells_its_watch(monkeypatch):
    seen = []

    class Noting(Watch):
        def built(self, session):
            seen.append("built")

        def after(self, session, micro, loss_sum, count):
            seen.append((session.last.number, count))

    monkeypatch.setattr(Session, "watch", Noting())
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=2, epochs=1)
    settings = TrainSettings(record=False)
    with Session(
        torch.nn.Linear(2, 1), None, TensorDataset(torch.ones(5, 2)), base, settings=settings
    ) as session:
        for (x,) in session.steps():
            session.backward(session.model(x).sum(), count=len(x))
    assert seen == ["built", (1, 2), (2, 2), (3, 1)]
    assert Watch().few([1]) == [1]
