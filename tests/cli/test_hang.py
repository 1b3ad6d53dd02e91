"""A rank that hangs: named with its phase and its stack, ended with status 3, and resumable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from hemostat.track import load_run

STALL_S = 3.0
TASK = """
import os, time
import torch, hemostat
from torch.utils.data import Dataset

CALLS = []

class Rows(Dataset):
    def __init__(self, num, sleeps_at=None):
        self.x = torch.randn(num, 3, generator=torch.Generator().manual_seed(num))
        self.sleeps_at = sleeps_at
    def __len__(self): return len(self.x)
    def __getitem__(self, index):
        if index == self.sleeps_at and os.environ.get("RANK") == "1" and CALLS:
            time.sleep(600)
        return self.x[index], self.x[index].sum().unsqueeze(0)

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 400
    optimizer: str = "sgd"
    eval_every_samples: int = 64
    hangs: str = ""
    slow_eval_s: float = 0.0

    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return Rows(64, 40 if self.hangs == "data" else None)
    def val_data(self): return Rows(16)
    def loss(self, output, target):
        CALLS.append(1)
        time.sleep(0.005)
        if not torch.is_grad_enabled():
            time.sleep(self.slow_eval_s)
        elif self.hangs == "loss" and os.environ["RANK"] == "1" and len(CALLS) == 30:
            time.sleep(600)
        return ((output - target) ** 2).sum(), len(target)
"""


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hemostat", "train", *words, "--set", f"train.stall_s={STALL_S}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def beat_of(here, rank: int, least_step: int) -> dict:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in here.glob(f".hemostat/runs/*/beat.{rank}.json"):
            beat = msgspec.json.decode(path.read_bytes())
            if beat["step"] >= least_step:
                return beat
        time.sleep(0.05)
    raise AssertionError("no beat")


def test_a_stopped_rank_is_named_and_the_run_can_be_resumed(here):
    """T106."""
    process = start("line.py:Line", "--nproc", "2")
    beat = beat_of(here, 1, 9)
    os.kill(beat["pid"], signal.SIGSTOP)
    stopped_s = time.monotonic()
    out, err = process.communicate(timeout=60)
    took_s = time.monotonic() - stopped_s
    assert process.returncode == 3, (out, err)
    assert took_s < STALL_S + 12
    assert "error: rank 1 hangs in" in err and "its process does not answer" in err
    assert err.count("hangs in") == 1 and "killed by SIGKILL" not in err
    record = load_run(here / ".hemostat" / "runs", "last")
    assert record.exit[0] == 128 + signal.SIGKILL and "rank 1 hangs" in record.exit[1]
    assert "rank 1 hangs" in record.summary["reason"]
    second = start("--resume", "last")
    beat_of(here, 1, beat["step"])
    second.send_signal(signal.SIGTERM)
    out, err = second.communicate(timeout=60)
    assert second.returncode == 75, (out, err)
    assert "goes on at step" in err


@pytest.mark.parametrize(
    ("where", "phase"), [pytest.param("data", "data", marks=pytest.mark.slow), ("loss", "forward")]
)
def test_a_rank_that_sleeps_is_named_with_its_stack(here, where, phase):
    began_s = time.monotonic()
    process = start("line.py:Line", "--nproc", "2", "--set", f"hangs={where}")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, (out, err)
    assert time.monotonic() - began_s < 55  # start-up included, on a busy machine
    assert f"error: rank 1 hangs in {phase} after step" in err
    assert f"(train.stall_s={STALL_S:g}), and the others wait for it. It stands at" in err
    assert "time.sleep(600)" in err and "line.py" in err


@pytest.mark.slow
def test_an_evaluation_that_is_slow_on_all_ranks_is_no_hang(here):
    process = start(
        "line.py:Line", "--nproc", "2", "--set", f"slow_eval_s={STALL_S + 1.5}", "--set", "epochs=1"
    )
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, (out, err)
    assert "hangs" not in err


def test_a_stall_that_is_longer_than_the_ranks_wait_is_refused(here):
    command = [sys.executable, "-m", "hemostat", "train", "line.py:Line", "--set", "train.stall_s=900"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 2 and "train.stall_s=900.0: must be above 0 and below 600" in process.stderr
