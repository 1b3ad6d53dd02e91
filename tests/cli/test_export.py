"""`hemostat export` as a user types it."""

from __future__ import annotations

import json

import pytest
import torch

import hemostat
from hemostat.cli.main import run as command
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import Checkpoints, load_run
from hemostat.train import TrainSettings, train

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    tuned_batch: int = 8
    epochs: float = 1

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True))

    val_data = train_data

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(TASK)
    train(load_task("line.py:Line"), Devices(), TrainSettings())
    return tmp_path


def call(capsys, *words):
    capsys.readouterr()
    status = command(["export", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_run_is_written_and_loaded_again(here, capsys):
    status, out, err = call(capsys, "last", "out")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) <= 12 and "the training code is not needed" in out
    assert "model.safetensors" in out and (here / "out" / "README.md").read_text().startswith("# Line, run ")
    inputs = torch.randn(4, 3)
    torch.testing.assert_close(hemostat.load("out")(inputs), hemostat.load("last")(inputs))
    written = json.loads(call(capsys, "last", "last-one", "--checkpoint", "last", "--json")[1])
    assert (written["checkpoint"], written["kind"], written["notes"]) == ("last", "archive", [])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nope", "out"], 2, "run='nope': is not known"),
        (["last", "."], 2, "is there already and not empty"),
        (["last", "out", "--checkpoint", "first"], 2, "checkpoint='first'"),
        (["last", "out", "--task", "gone.py:Line"], 2, "gone.py: no such file"),
        (["last", "line.py/out"], 3, "cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message(here, capsys, words, status, said):
    before = sorted(here.iterdir())
    got, out, err = call(capsys, *words)
    assert (got, out) == (status, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert sorted(here.iterdir()) == before


def test_a_half_written_checkpoint_and_a_task_file_that_is_gone(here, capsys):
    run = load_run(here / ".hemostat" / "runs").path
    (best,) = Checkpoints(run).best().glob("*.distcp")
    whole = best.read_bytes()
    best.write_bytes(whole[: len(whole) // 2])
    status, _, err = call(capsys, "last", "out")
    assert (status, err.count("\n")) == (3, 1) and "is not whole: __0_0.distcp" in err
    best.write_bytes(whole)
    (here / "line.py").unlink()
    status, _, err = call(capsys, "last", "out")
    assert (status, err.count("\n")) == (2, 1) and "is not there any more" in err
    assert not (here / "out").exists()
