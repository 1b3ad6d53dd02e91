"""Evaluations read through one source a data set, leave no thread behind, and their waits are told."""

from __future__ import annotations

import threading
import time

import torch
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import Workers
from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings


class Slow(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.ones(2)


def run(val, workers=None, passes=2):
    settings = TrainSettings(record=False, workers=workers or Workers())
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=8, epochs=1)
    session = Session(torch.nn.Linear(2, 1), None, TensorDataset(torch.ones(32, 2)), base, settings=settings)
    with session:
        for (x,) in session.steps():
            session.backward(session.model(x).sum(), count=len(x))
        for _ in range(passes):
            session.evaluate(val, lambda model, x: {"val_loss": (model(x).sum(), len(x))})
    return session


def test_what_an_evaluation_waits_is_counted_and_said():
    session = run(Slow(), Workers(mode="none"), passes=3)
    outcome = session.outcome
    assert outcome.eval_wait_s > 3 * 24 * 0.02
    assert outcome.eval_wait_s / outcome.train_s > 0.5
    assert outcome.eval_waited.startswith("evaluations waited for their data for 1.")
    assert outcome.eval_waited.endswith("% of the run")


def test_fast_data_are_not_mentioned():
    outcome = run(list(torch.ones(24, 2).unbind())).outcome
    assert outcome.eval_waited == "" and outcome.eval_wait_s < 0.5


def test_one_source_a_data_set_and_no_thread_is_left():
    val = Slow()
    before = threading.active_count()
    session = run(val, Workers(mode="threads", num=2))
    assert threading.active_count() == before
    feeds = session.eval_feeds
    with feeds.loader(val) as first, feeds.loader(val) as again, feeds.loader(Slow()) as other:
        assert first.source is again.source and other.source is not first.source
        next(iter(first))  # left unfinished
    assert threading.active_count() == before
