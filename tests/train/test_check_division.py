"""A divided model that does not compute what the whole one does is refused before the first step, on all ranks."""

import pytest
import torch
from test_layouts import Words
from torch import nn

from hemostat.data import Source
from hemostat.errors import HemostatError
from hemostat.plan import Layout
from hemostat.recipe import Base
from hemostat.train import Session, TrainSettings
from hemostat.train.check_division import check_division
from hemostat.train.split_model import split_model


class Mixing(nn.Module):
    """Views its activations by a number of heads that it calls `h`; a rank of tp=2 has half of the features."""

    def __init__(self, is_fixed: bool) -> None:
        super().__init__()
        self.h, self.is_fixed = 4, is_fixed
        self.embedding = nn.Embedding(67, 16)
        self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, 67)

    def forward(self, ids):
        x = self.up(self.embedding(ids))
        shape = (self.h, -1) if self.is_fixed else (self.h, 4)
        return self.head(self.down(x.unflatten(-1, shape).softmax(-1).flatten(-2)))


class Mixed(Words):
    is_fixed: bool = True

    def model(self):
        torch.manual_seed(0)
        return Mixing(self.is_fixed)

    def tensor_plan(self, model):
        return {"up": "colwise", "down": "rowwise"}


def told(task: Words, layout: str) -> str:
    settings = TrainSettings(record=False, layout=Layout.read(layout))
    source = Source(task.train_data(), "train_data")
    given = split_model(task, task.model(), source, settings.layout)
    session = Session(given, None, source, Base(lr=0.1, tuned_batch=16, epochs=1), settings=settings)
    try:
        check_division(session, given)
    except HemostatError as error:
        return str(error)
    finally:
        session.world.close()
    return ""


def told_of(kind: str, layout: str) -> str:
    return told(Words() if kind == "words" else Mixed(is_fixed=kind == "fixed"), layout)


@pytest.mark.parametrize("layout", ["fsdp=2", "tp=2", "pp=2"])
def test_a_right_division_passes(ranks, layout):
    assert ranks(2, told_of, "words", layout) == ["", ""]


def test_another_loss_is_refused_with_both(ranks):
    said = ranks(2, told_of, "fixed", "tp=2")
    assert said[0] == said[1]
    assert "self-check: one sample has the loss" in said[0]
    assert "num_heads" in said[0]


def test_a_forward_that_fails_is_told_with_the_repair(ranks):
    for said in ranks(2, told_of, "views", "tp=2"):
        assert "in layout tp=2" in said or "raised" in said
        assert "num_heads" in said
