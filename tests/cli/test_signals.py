"""SIGTERM while the ranks do something long: an evaluation is given up, a wait for data ends after its grace."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from hemostat.track import Checkpoints, load_run

pytestmark = pytest.mark.slow

TASK = """
import os, pathlib, time
import torch, hemostat
from torch.utils.data import Dataset

class Rows(Dataset):
    def __init__(self, num, waits_at=None):
        self.x = torch.randn(num, 3, generator=torch.Generator().manual_seed(num))
        self.waits_at = waits_at
    def __len__(self): return len(self.x)
    def __getitem__(self, index):
        if index == self.waits_at and os.environ.get("RANK", "0") == os.environ["WAITS"]:
            pathlib.Path("now.mark").touch()
            time.sleep(600)
        return self.x[index], self.x[index].sum().unsqueeze(0)

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 2
    optimizer: str = "sgd"
    eval_every_samples: int = 40
    checkpoint_every_samples: int = 8
    slow_s: float = 0.0

    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return Rows(64, 40)
    def val_data(self): return Rows(800)
    def loss(self, output, target):
        if not torch.is_grad_enabled() and self.slow_s:
            pathlib.Path("now.mark").touch()
            time.sleep(self.slow_s)
        return ((output - target) ** 2).sum(), len(target)
"""


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    monkeypatch.setenv("WAITS", "none")


def train(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hemostat", "train", *words, "--set", "train.self_check=false"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def signalled(here, process) -> tuple[int, str, float]:
    deadline = time.monotonic() + 60
    while not (here / "now.mark").exists():
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    began_s = time.monotonic()
    said, _ = process.communicate(timeout=60)
    return process.returncode, said, time.monotonic() - began_s


@pytest.mark.parametrize("nproc", ["1", "2"])
def test_a_long_evaluation_is_given_up_and_comes_first_after_the_resume(here, nproc):
    """T053."""
    process = train("line.py:Line", "--nproc", nproc, "--set", "slow_s=0.3")
    status, said, took_s = signalled(here, process)
    assert status == 75, said
    assert took_s < 10, "100 batches of 0.3 s were left out"
    assert "during the evaluation at step 5; saved, go on with: hemostat train --resume" in said
    record = load_run(here / ".hemostat" / "runs", "last")
    assert not record.metrics("val_loss")
    assert Checkpoints(record.path).published()[-1].name == "step-000000005"
    second = train("--resume", "last", "--set", "slow_s=0")
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0, said
    record = load_run(here / ".hemostat" / "runs", "last")
    assert [step for step, _, _ in record.metrics("val_loss")] == [5, 10, 15, 16]
    assert [step for step, _, _ in record.metrics("loss")] == list(range(1, 17))


@pytest.mark.parametrize(("nproc", "waits"), [("1", "0"), ("2", "1")])
def test_a_wait_for_data_ends_after_its_grace_and_names_the_last_checkpoint(here, monkeypatch, nproc, waits):
    monkeypatch.setenv("WAITS", waits)
    process = train("line.py:Line", "--nproc", nproc, "--set", "train.grace_s=1.5")
    status, said, took_s = signalled(here, process)
    assert status == 75, said
    assert took_s < 20
    run = load_run(here / ".hemostat" / "runs", "last")
    last = Checkpoints(run.path).published()[-1].name
    assert "did not come within 1.5 s" in said
    assert f"the last checkpoint is {last}, go on with: hemostat train --resume {run.id}" in said
    monkeypatch.setenv("WAITS", "none")
    second = train("--resume", "last")
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0, said
