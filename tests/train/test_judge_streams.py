"""Iterable-only data are judged exactly: each row once, the same bits for any number of ranks."""

from __future__ import annotations

import os

import pytest
import torch

from hemostat.errors import TaskError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import load_run
from hemostat.train import TrainSettings, train
from hemostat.train.judge import judge_run
from hemostat.train.process import World

TASK = """
import os, torch, hemostat
from hemostat.data import Stream
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

class Rows(IterableDataset):
    def __init__(self, split=False):
        self.split = split
    def __iter__(self):
        x = torch.randn(45, 3, generator=torch.Generator().manual_seed(3))
        rank, num_ranks = (int(os.environ.get(name, usual)) for name, usual in (("RANK", 0), ("WORLD_SIZE", 1)))
        for row in x[rank::num_ranks] if self.split else x:
            yield row, row.sum(0, keepdim=True)

class Line(hemostat.Task):
    optimizer: str = "sgd"
    tuned_batch: int = 8
    epochs: float = 1
    kind: str = "stream"
    splits: str = ""

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        if self.splits == "train":
            return Stream(Rows(split=True), 15)
        return TensorDataset(torch.ones(16, 3), torch.ones(16, 1))

    def val_data(self):
        return Stream(Rows(split=True), 15) if self.splits == "val" else None

    def test_data(self):
        return {
            "stream": lambda: Stream(Rows(), 45),
            "loader": lambda: Stream(DataLoader(Rows(), batch_size=None), 45),
            "map": lambda: list(Rows()),
            "split": lambda: Stream(Rows(split=True), 15),
            "no length": Rows,
            "too short": lambda: Stream(Rows(), 50),
        }[self.kind]()

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)
"""


@pytest.fixture
def make_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(TASK)

    def make(kind):
        session = train(load_task("line.py:Line", {"kind": kind}), Devices(), TrainSettings())
        return load_run(tmp_path / ".hemostat" / "runs", session.record.path.name)

    return make


def judged(path):
    torch.set_num_threads(1)
    world = World.from_environment("cpu")
    return judge_run(load_run(path.parent, path.name), "test", world)["figures"]


def refused(path):
    with pytest.raises(TaskError) as caught:
        judged(path)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["stream", "loader"])
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_a_stream_gives_the_bits_of_a_list_on_any_number_of_ranks(make_run, ranks, kind, num_ranks):
    torch.set_num_threads(1)
    expected = judge_run(make_run("map"), "test", World())["figures"]
    run = make_run(kind)
    assert judge_run(run, "test", World())["figures"] == expected
    for figures in ranks(num_ranks, judged, run.path):
        assert figures == expected
    assert expected["test_loss"]["unit"] == "sample"


def test_a_stream_that_splits_itself_is_refused_on_all_ranks(make_run, ranks):
    run = make_run("split")
    for said in ranks(2, refused, run.path):
        assert said.startswith("test_data differs from rank to rank") and "splits it by rank" in said


def trained(folder, splits):
    os.chdir(folder)
    with pytest.raises(TaskError) as caught:
        train(load_task("line.py:Line", {"splits": splits}), Devices(), TrainSettings(device="cpu"))
    return str(caught.value)


@pytest.mark.parametrize("splits", ["train", "val"])
def test_training_refuses_it_before_the_first_step(make_run, ranks, tmp_path, splits):
    for said in ranks(2, trained, str(tmp_path), splits):
        assert said.startswith(
            f"{splits}_data is a stream whose first item differs from rank to rank. Leave out"
        )


def test_an_unknown_or_wrong_length_is_refused(make_run):
    with pytest.raises(TaskError, match=r"no length.*Stream\(data, num_samples=\.\.\.\)"):
        judge_run(make_run("no length"), "test", World())
    with pytest.raises(TaskError, match="num_samples=50 of test_data is wrong: the data have 45"):
        judge_run(make_run("too short"), "test", World())
