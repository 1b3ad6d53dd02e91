"""Looks at the test data are counted over all runs, whatever holds the data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hemostat.cli.main import run as hemostat
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import load_run
from hemostat.train import TrainSettings, train
from hemostat.train.judge import judge_run
from hemostat.train.process import World

TASK = """
import torch, hemostat
from pathlib import Path
from hemostat.data import ImageFolder, Stream, TokenFile
from torch.utils.data import TensorDataset

HERE = Path(__file__).parent

class Line(hemostat.Task):
    optimizer: str = "sgd"
    tuned_batch: int = 8
    epochs: float = 1
    kind: str = "tensors"
    lr: float = 0.01

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        return TensorDataset(torch.ones(16, 3), torch.ones(16, 1))

    def test_data(self):
        return getattr(self, self.kind)()

    def tensors(self):
        return TensorDataset(torch.ones(20, 3), torch.ones(20, 1))

    def tokens(self):
        return TokenFile(HERE / "tokens.bin", 4)

    def images(self):
        return ImageFolder(HERE / "images", (4, 4))

    def table(self):
        import datasets
        return datasets.Dataset.from_dict({"x": [[1.0, float(k), 3.0] for k in range(20)], "y": [[1.0]] * 20})

    def stream(self):
        rows = [(torch.ones(3), torch.ones(1))] * 20
        class Rows:
            def __iter__(self): return iter(rows)
        return Stream(Rows(), 20)

    def step(self, model, batch):
        leaf = (batch["x"] if isinstance(batch, dict) else batch[0]).float()
        return (model(leaf.reshape(len(leaf), -1)[:, :3]) ** 2).mean(), len(leaf)
"""


def make_run(here, kind, lr):
    session = train(load_task("line.py:Line", {"kind": kind, "lr": lr}), Devices(), TrainSettings())
    return load_run(here / ".hemostat" / "runs", session.record.path.name)


def write_data(here, seed):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(seed)
    rng.integers(0, 99, 84, dtype=np.uint16).tofile(here / "tokens.bin")
    (here / "images" / "cat").mkdir(parents=True, exist_ok=True)
    for number in range(3):
        pixels = rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        image.fromarray(pixels).save(here / "images" / "cat" / f"{number}.png")


def look(record, name):
    record.add_evaluation(name, judge_run(record, "test", World()))


def all_looks(record, capfd):
    assert hemostat(["evaluate", record.id, "--split", "test", "--json"]) == 0
    return json.loads(capfd.readouterr().out)["looks"]


@pytest.mark.parametrize("kind", ["tensors", "tokens", "images", "table"])
def test_two_runs_on_the_same_data_are_counted_together(here, capfd, kind):
    if kind == "table":
        pytest.importorskip("datasets", reason="datasets is in the extra `bench`")
    write_data(here, seed=1)
    first, second = make_run(here, kind, 0.01), make_run(here, kind, 0.02)
    look(first, "20260101-0101-aaaaa")
    assert all_looks(second, capfd) == {"run": 1, "all_runs": 2}
    if kind in ("tokens", "images"):
        write_data(here, seed=2)  # other test data: nobody has looked at these
        assert all_looks(second, capfd) == {"run": 2, "all_runs": 1}


def test_data_without_a_fingerprint_are_counted_for_one_run(here, capfd):
    first, second = make_run(here, "stream", 0.01), make_run(here, "stream", 0.02)
    look(first, "20260101-0101-aaaaa")
    assert hemostat(["evaluate", second.id, "--split", "test"]) == 0
    said = capfd.readouterr().out
    assert "this run has been tested once; looks of other runs are not known" in said
