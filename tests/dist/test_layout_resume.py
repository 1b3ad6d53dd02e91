"""Saved under one layout, resumed under another: the run that was never stopped; under the same one, bit for bit."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
import torch
from test_layouts import Words, compare, whole_weights

from hemostat.data import Source
from hemostat.errors import HemostatWarning
from hemostat.plan import Layout
from hemostat.recipe import Base, Devices
from hemostat.task import LossDoor
from hemostat.train import Session, TrainSettings
from hemostat.train.control import Stop
from hemostat.train.loop import Trainer
from hemostat.train.split_model import split_model

STOP_AT = 3
PAIRS = [
    ("fsdp=2", "pp=2"),
    ("pp=2", "fsdp=2"),
    ("pp=2", "dp=1"),
    ("dp=1", "pp=2,schedule=interleaved,stages_per_rank=2"),
    ("tp=2", "dp=2"),
    ("dp=2", "tp=2"),
    ("fsdp=2,tp=2", "pp=2"),
    ("pp=2,fsdp=2", "fsdp=2,tp=2"),
    ("dp=1", "dp=2,fsdp=2"),
]
ALONE = ["dp=2", "fsdp=2", "tp=2", "pp=2"]


def attempt(folder: str, layout: str, stop_at: int | None, resume: bool, tied: bool) -> dict:
    """One attempt at the run: its steps, and the weights where it ended."""
    os.chdir(folder)
    task = Words(tied=tied)
    base = Base(optimizer="adamw", lr=0.01, tuned_batch=22, total_samples=110, clip_norm=0.5)
    settings = TrainSettings(layout=Layout.read(layout), resume="last" if resume else None)
    source = Source(task.train_data(), "train_data")
    model = split_model(task, task.model(), source, settings.layout)
    steps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HemostatWarning)
        with Session(
            model, None, source, base, Devices(global_batch=22, accumulation=3), settings
        ) as session:
            trainer = Trainer(session, LossDoor(task), None)
            for batch in session.steps():
                trainer._pass(batch)
                if session.at_window_end:
                    steps.append((session.last.number, session.last.loss, session.last.lr))
                    if session.last.number == stop_at:
                        session.stop = Stop("SIGTERM", 75)
            weights = whole_weights(session)
    return {"steps": steps, "weights": weights}


def on(ranks, layout: str, *args) -> list[dict]:
    num_ranks = Layout.read(layout).num_ranks
    if num_ranks > 1:
        return ranks(num_ranks, attempt, args[0], layout, *args[1:])
    before = Path.cwd()
    try:
        return [attempt(args[0], layout, *args[1:])]
    finally:
        os.chdir(before)


def place(tmp_path: Path, name: str) -> str:
    (tmp_path / name).mkdir(exist_ok=True)
    return str(tmp_path / name)


@pytest.fixture(scope="module")
def undisturbed(ranks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return {tied: on(ranks, "dp=1", place(folder, str(tied)), None, False, tied)[0] for tied in (False, True)}


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_run_goes_on_under_another_layout(ranks, tmp_path, undisturbed, before, after):
    """T094: no dim of the vocabulary, 67, divides by the ranks."""
    tied = "pp" in before + after
    first = on(ranks, before, place(tmp_path, "run"), STOP_AT, False, tied)
    second = on(ranks, after, place(tmp_path, "run"), None, True, tied)
    whole = undisturbed[tied]
    assert [step[0] for step in first[0]["steps"] + second[0]["steps"]] == list(range(1, 7))
    for step, expected in zip(first[0]["steps"] + second[0]["steps"], whole["steps"], strict=True):
        assert step == pytest.approx(expected, abs=1e-10)
    seen = set()
    for one in second:
        seen |= compare(one["weights"], whole["weights"])
    assert seen >= whole["weights"].keys()


@pytest.mark.parametrize("layout", ALONE)
def test_under_the_same_layout_it_goes_on_bit_for_bit(ranks, tmp_path, layout):
    whole = on(ranks, layout, place(tmp_path, "whole"), None, False, True)
    first = on(ranks, layout, place(tmp_path, "cut"), STOP_AT, False, True)
    second = on(ranks, layout, place(tmp_path, "cut"), None, True, True)
    for rank, one in enumerate(second):
        assert first[rank]["steps"] + one["steps"] == whole[rank]["steps"]
        for name, weight in one["weights"].items():
            assert torch.equal(weight, whole[rank]["weights"][name])
