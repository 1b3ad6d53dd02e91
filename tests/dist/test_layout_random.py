"""Random numbers under a layout: apart where ranks see other samples or stages, alike where they hold the same."""

from __future__ import annotations

import pytest
import torch
from test_layouts import Block, Words, whole_weights
from torch import nn

from hemostat.data import Source
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor
from hemostat.train import Session, TrainSettings
from hemostat.train.loop import Trainer
from hemostat.train.split_model import split_model


class Dropping(Block):
    """Drops what each rank of a tp group holds whole, unless it holds its positions only."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.drop = nn.Dropout(0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.drop(x))


class DroppedWords(Words):
    def model(self) -> nn.Module:
        model = super().model()
        model.blocks = nn.ModuleList(Dropping(12) for _ in range(4)).double()
        return model


def attempt(layout: str) -> tuple[float, list[float], dict[str, torch.Tensor]]:
    """The next random number of this rank, its losses, and its weights after five steps."""
    task = DroppedWords()
    base = Base(optimizer="adamw", lr=0.01, tuned_batch=22, total_samples=110)
    settings = TrainSettings(record=False, layout=Layout.read(layout))
    source = Source(task.train_data(), "train_data")
    model = split_model(task, task.model(), source, settings.layout)
    losses = []
    with Session(model, None, source, base, Devices(global_batch=22, accumulation=2), settings) as session:
        drawn = float(torch.rand(1))
        trainer = Trainer(session, LossDoor(task), None)
        for batch in session.steps():
            trainer._pass(batch)
            if session.at_window_end:
                losses.append(session.last.loss)
        weights = whole_weights(session)
    return drawn, losses, weights


@pytest.mark.parametrize(
    ("layout", "alike"),
    [
        ("dp=2", False),
        ("fsdp=2", False),
        ("pp=2", False),
        ("tp=2", False),
        ("tp=2,sequence_parallel=false", True),
    ],
)
def test_ranks_draw_alike_only_where_they_hold_the_same_whole(ranks, layout, alike):
    (first, losses, weights), (second, others, theirs) = ranks(2, attempt, layout)
    assert (first == second) is alike
    assert losses == pytest.approx(others, abs=1e-12)
    if "pp" not in layout:
        for name, weight in weights.items():  # masks that differed where they must not drive copies apart
            torch.testing.assert_close(weight, theirs[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_what_is_computed_again_drops_the_same(recompute):
    _, losses, weights = attempt("dp=1")
    _, again, same = attempt(f"dp=1,recompute={recompute}")
    assert again == losses
    assert all(torch.equal(weight, same[name]) for name, weight in weights.items())
