"""A cap ends what never looks: a process alone that waits for data, or that never comes to its first step."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from hemostat.track import load_run

TASK = """
import os, signal, time
import torch, hemostat
from torch.utils.data import Dataset

class Rows(Dataset):
    def __init__(self, hangs): self.x, self.hangs = torch.ones(64, 3), hangs
    def __len__(self): return 64
    def __getitem__(self, index):
        if self.hangs == "data" and index == 40 and os.path.exists("trained"):
            time.sleep(600)
        return self.x[index], self.x[index].sum().unsqueeze(0)

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 4000
    optimizer: str = "sgd"
    hangs: str = ""

    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self):
        if self.hangs == "start":
            time.sleep(600)
        return Rows(self.hangs)
    def loss(self, output, target):
        if torch.is_grad_enabled():
            open("trained", "w").close()
        if self.hangs == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        return ((output - target) ** 2).sum(), len(target)
"""
CAP_S = 20


def capped(*words: str) -> tuple[int, str, float]:
    command = [
        sys.executable,
        "-m",
        "hemostat",
        "train",
        "line.py:Line",
        "--max-hours",
        f"{CAP_S}s",
        "--no-plot",
    ]
    begun_s = time.monotonic()
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=90)
    return done.returncode, done.stderr + done.stdout, time.monotonic() - begun_s


@pytest.mark.slow
def test_a_process_alone_whose_data_do_not_come_leaves_at_its_cap(here):
    status, said, took_s = capped("--set", "hangs=data", "--set", "train.self_check=false")
    assert status == 5, said
    assert CAP_S <= took_s < CAP_S + 5
    record = load_run(here / ".hemostat" / "runs", "last")
    assert record.state == "budget"
    assert (
        "max_hours=20.0 s is reached in data after step" in record.exit[1]
        and "nothing can be saved" in record.exit[1]
    )
    assert record.summary["spent_s"] >= CAP_S


@pytest.mark.slow
@pytest.mark.parametrize("hangs", ["start", "stopped"])
def test_what_cannot_leave_by_itself_is_killed_soon_after(here, hangs):
    status, said, took_s = capped("--set", f"hangs={hangs}", "--set", "train.self_check=false")
    assert status == 5, said
    assert CAP_S + 5 <= took_s < CAP_S + 12
    assert said.count("max_hours=20.0 s is reached and the run goes on without a vote, so it was killed") >= 1
    assert load_run(here / ".hemostat" / "runs", "last").exit[0] == 5


@pytest.mark.slow
def test_a_process_alone_that_waits_for_data_is_named(here):
    status, said, _ = capped(
        "--set", "hangs=data", "--set", "train.stall_s=2", "--set", "train.self_check=false"
    )
    assert status == 5
    assert (
        "note: rank 0 has stood in data after step" in said and "let be: it may be slow. It stands at" in said
    )
    assert said.count("has stood in") == 1
