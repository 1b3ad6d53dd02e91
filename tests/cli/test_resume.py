"""`hemostat train --resume` as a user types it: after a signal, a kill, an end; refused, doubled, restarted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
import torch

from hemostat.track import Checkpoints, load_run
from hemostat.train.weights import read_weights

TASK = """
import os, signal, time
import torch, hemostat
from torch.utils.data import TensorDataset

CALLS = []

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 6
    optimizer: str = "adamw"
    eval_every_samples: int = 64
    slow_s: float = 0.0
    dies_at: int = 0

    def model(self):
        return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Dropout(0.2), torch.nn.Linear(5, 1))
    def train_data(self): return self._data(0, 64)
    def val_data(self): return self._data(1, 16)
    def _data(self, seed, num):
        x = torch.randn(num, 3, generator=torch.Generator().manual_seed(seed))
        return TensorDataset(x, x.sum(1, keepdim=True))
    def loss(self, output, target):
        time.sleep(self.slow_s)
        CALLS.append(1)
        first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if first and len(CALLS) == self.dies_at and os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return ((output - target) ** 2).sum(), len(target)
"""


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hemostat", "train", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def call(*words: str) -> tuple[int, str, str]:
    process = start(*words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def start_to_checkpoint(here, *words: str) -> tuple[subprocess.Popen[str], str]:
    """A run that has a checkpoint by now, and its id."""
    before = set(here.glob(".hemostat/runs/*"))
    process = start(*words)
    deadline = time.monotonic() + 60
    while True:
        new = set(here.glob(".hemostat/runs/*")) - before
        for run in new:
            if list(run.glob("checkpoints/step-*")):
                return process, run.name
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.02)


def weights(here, run="last"):
    return read_weights(load_run(here / ".hemostat" / "runs", run), "last").state


@pytest.mark.parametrize(
    ("nproc", "number"),
    [
        ("2", signal.SIGKILL),
        pytest.param("1", signal.SIGKILL, marks=pytest.mark.slow),
        ("1", signal.SIGTERM),
        pytest.param("2", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_goes_on_to_the_same_weights(here, nproc, number):
    """T053."""
    assert call("line.py:Line", "--nproc", nproc)[0] == 0
    whole = weights(here)
    process, run = start_to_checkpoint(here, "line.py:Line", "--nproc", nproc, "--set", "slow_s=0.05")
    process.send_signal(number)
    process.communicate(timeout=60)
    status, out, err = call("--resume", run, "--set", "slow_s=0.0")
    assert status == 0, err
    assert f"note: run {run} goes on at step" in err
    assert f"note: run {run} goes on with changes: slow_s: 0.05 -> 0.0\n" in err
    assert "the run reached its end" in out or "no improvement" in out
    assert all(torch.equal(value, whole[name]) for name, value in weights(here, run).items())
    record = load_run(here / ".hemostat" / "runs", run)
    assert [step for step, _, _ in record.metrics("loss")] == list(range(1, record.summary["steps"] + 1))


def test_a_finished_run_says_so(here):
    """T050."""
    assert call("line.py:Line")[0] == 0
    status, out, err = call("--resume", "last")
    assert (status, err) == (0, "")
    assert "is done, the run reached its end: there is nothing to resume" in out


def test_ranks_that_die_are_restarted_from_the_checkpoint(here):
    """T105."""
    assert call("line.py:Line", "--nproc", "2")[0] == 0
    whole = weights(here)
    status, _, err = call("line.py:Line", "--nproc", "2", "--max-restarts", "1", "--set", "dies_at=20")
    assert status == 0, err
    assert "goes on at step" in err and "note: all ranks start again (1 of 1)" in err
    assert all(torch.equal(value, whole[name]) for name, value in weights(here).items())
    record = load_run(here / ".hemostat" / "runs")
    assert "rank 1 was killed by SIGKILL" in record.header["restarts"][0]["why"]
    # both attempts and what lies between them were paid for
    assert record.summary["spent_s"] == pytest.approx(record.summary["ended"] - record.created, abs=1.5)


def test_two_resumes_at_once_are_refused(here):
    process, run = start_to_checkpoint(here, "line.py:Line", "--set", "slow_s=0.05")
    record = load_run(here / ".hemostat" / "runs", run)
    given = record.given()
    status, _, err = call("--resume", "last", "--nproc", "2", "--set", "slow_s=9.0")
    assert status == 3 and err.count("\n") == 1
    assert record.given() == given  # the running ranks would read it after a restart
    assert "another process is running this run" in err
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 75


def test_another_task_and_no_task_are_refused(here):
    process, _ = start_to_checkpoint(here, "line.py:Line", "--set", "slow_s=0.05")
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    before = sorted(path.name for path in here.glob(".hemostat/runs/*"))
    for words, said in [
        (("other.py:Other", "--resume", "last"), "is not the task of that run"),
        ((), "task=None: is missing. Write hemostat train FILE.py:CLASS, or --resume RUN."),
        (("--resume", "nosuch"), "nosuch"),
        (("--resume", "last", "--set", "optimizer=sgd"), "the optimizer is SGD now and was AdamW"),
    ]:
        status, out, err = call(*words)
        assert (status, out, err.count("\n")) == (2, "", 1), err
        assert said in err
    assert sorted(path.name for path in here.glob(".hemostat/runs/*")) == before
    assert Checkpoints(load_run(here / ".hemostat" / "runs").path).last_whole()[0] is not None


@pytest.mark.parametrize("nproc", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_paused_run_goes_on_to_the_same_weights(here, nproc):
    assert call("line.py:Line", "--nproc", nproc)[0] == 0
    whole = weights(here)
    process, run = start_to_checkpoint(here, "line.py:Line", "--nproc", nproc, "--set", "slow_s=0.05")
    load_run(here / ".hemostat" / "runs", run).ask("pause")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "control.json asked for a pause at" in out and f"next     hemostat train --resume {run}" in out
    record = load_run(here / ".hemostat" / "runs", run)
    assert record.state == "paused"
    status, out, err = call("--resume", run, "--set", "slow_s=0.0")
    assert status == 0 and f"note: run {run} goes on at step" in err, err
    record = load_run(here / ".hemostat" / "runs", run)
    assert record.state == "done"
    assert all(torch.equal(value, whole[name]) for name, value in weights(here, run).items())
    assert [step for step, _, _ in record.metrics("loss")] == list(range(1, record.summary["steps"] + 1))


@pytest.mark.slow
def test_on_other_ranks_the_change_is_said(here):
    process, _ = start_to_checkpoint(here, "line.py:Line", "--nproc", "2", "--set", "slow_s=0.05")
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    status, _, err = call("--resume", "last", "--nproc", "1", "--set", "slow_s=0.0")
    assert status == 0, err
    assert "num_ranks: 2 -> 1" in err
