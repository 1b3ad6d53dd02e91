"""Ragged windows of a pipeline: fillers change nothing, and a share without samples counts nothing."""

import pytest
import torch
from test_layouts import VOCAB, Words

from hemostat.data import Source
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor
from hemostat.train import Session, TrainSettings
from hemostat.train.loop import Trainer
from hemostat.train.split_model import split_model


class Few(Words):
    """Seven samples: windows of 5 and 2, in three micro-batches."""

    def train_data(self):
        generator = torch.Generator().manual_seed(5)
        return torch.utils.data.TensorDataset(*torch.randint(0, VOCAB, (2, 7, 4), generator=generator))


def steps(layout: str) -> list[tuple[int, float, float]]:
    task = Few()
    settings = TrainSettings(record=False, layout=Layout.read(layout))
    source = Source(task.train_data(), "train_data")
    model = split_model(task, task.model(), source, settings.layout)
    base = Base(optimizer="sgd", lr=0.1, tuned_batch=5, epochs=2)
    seen = []
    with Session(model, None, source, base, Devices(global_batch=5, accumulation=3), settings) as session:
        trainer = Trainer(session, LossDoor(task), None)
        for batch in session.steps():
            trainer._pass(batch)
            if session.at_window_end:
                seen.append((session.last.samples, session.last.loss, session.last.grad_norm))
    return seen


def test_ragged_windows_are_those_of_one_process(ranks):
    whole = steps("dp=1")
    assert [samples for samples, _, _ in whole] == [5, 7, 12, 14]
    for found in ranks(2, steps, "pp=2"):
        for step, expected in zip(found, whole, strict=True):
            assert step == pytest.approx(expected, abs=1e-12)
