"""A small task that saves, judges and waits all the time, and the means to hit a run of it at a chosen moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec

from hemostat.track import Checkpoints

WAIT_S = 240.0  # of an attempt; the machine may be busy
RUNS = ".hemostat/runs/2*"
TASK = """
import os, pathlib, random, time
import torch, hemostat
from torch.utils.data import Dataset

RANK = os.environ.get("RANK", "0")

def mark(what):
    pathlib.Path(f"{what}.{RANK}.mark").touch()

class Rows(Dataset):
    def __init__(self, num, slow=()):
        self.x = torch.randn(num, 6, generator=torch.Generator().manual_seed(num))
        self.slow = slow
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        if index in self.slow:
            mark("data")
            time.sleep(0.25)
        return self.x[index], self.x[index].sum().unsqueeze(0)

class Small(hemostat.Task):
    lr: float = 0.01
    tuned_batch: int = 12
    epochs: float = 3
    optimizer: str = "adamw"
    clip_norm: float = 1.0
    patience: int = 1000000
    eval_every_samples: int = 60
    checkpoint_every_samples: int = 24
    trouble: float = 0.0

    def model(self):
        return torch.nn.Sequential(
            torch.nn.Linear(6, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.2), torch.nn.Linear(32, 1)
        )
    def train_data(self): return Rows(120, slow=(17, 63, 110))
    def val_data(self): return Rows(24)
    def loss(self, output, target):
        if not torch.is_grad_enabled():
            mark("evaluate")
            time.sleep(0.05)
        elif random.random() < self.trouble:
            output = output * float("nan")
        time.sleep(0.01)
        return ((output - target) ** 2).sum(), len(target)
"""


class Run:
    """One run of the task in a folder of its own, over all its attempts.

    Args:
        folder: made here.
        num_ranks: processes.
        settings: as after `--set`.
        restarts: of the launcher.
    """

    def __init__(
        self, folder: Path, num_ranks: int, settings: tuple[str, ...] = (), restarts: int = 0
    ) -> None:
        folder.mkdir(parents=True)
        (folder / "small.py").write_text(textwrap.dedent(TASK), encoding="utf-8")
        self.folder, self.num_ranks = folder, num_ranks
        self._before: set[Path] = set()
        self._words = [word for setting in settings for word in ("--set", setting)]
        self._words += ["--max-restarts", str(restarts)] if restarts else []
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        """Go on from the last checkpoint; without one, which is said to whoever resumes, begin anew."""
        if self.checkpoints:
            words = ["--resume", self.path.name]
        else:
            self._before = set(self.folder.glob(RUNS))
            words = ["small.py:Small", "--nproc", str(self.num_ranks)]
        for mark in self.folder.glob("*.mark"):
            mark.unlink()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hemostat", "train", *words, *self._words],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self.process

    def finish(self) -> tuple[int, str]:
        """Wait for the end: status and output; no process of the run is left."""
        pids = self.pids()
        try:
            said, _ = self.process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and by its leash all ranks
            raise
        deadline_s = time.monotonic() + WAIT_S
        while any(Path(f"/proc/{pid}").exists() for pid in pids.values()):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{pids} outlive their launcher")
            time.sleep(0.02)
        return self.process.returncode, said

    @property
    def path(self) -> Path | None:
        """The run directory: that of the latest beginning."""
        return next(iter(set(self.folder.glob(RUNS)) - self._before), None)

    @property
    def checkpoints(self) -> list[Path]:
        """Those that are whole, oldest first."""
        return Checkpoints(self.path).published() if self.path else []

    def pids(self) -> dict[int, int]:
        """Processes of the ranks, as their heart-beats say."""
        found = {}
        for path in self.path.glob("beat.*.json") if self.path else ():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                beat = msgspec.json.decode(path.read_bytes())
                found[int(beat["rank"])] = int(beat["pid"])
        return found

    def wait_until(self, condition) -> bool:
        """Look every millisecond; False when the run ends before."""
        deadline_s = time.monotonic() + WAIT_S
        while not condition():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"nothing to hit within {WAIT_S:g} s")
            time.sleep(0.001)
        return True

    def reach(self, moment: str, delay_s: float) -> bool:
        """Wait for the next "save", "evaluate" or "data", or "any" moment; False if the run ends before.

        The moment "start" is any one before the first checkpoint: the ranks have begun to beat, and no more.
        """
        begins = moment == "start"
        ready = self.wait_until(lambda: (begins or self.checkpoints) and len(self.pids()) == self.num_ranks)
        for mark in self.folder.glob("*.mark"):
            mark.unlink(missing_ok=True)
        if moment == "save":
            root = Checkpoints(self.path).root if ready else Path()
            ready = ready and self.wait_until(lambda: any(root.glob(".step-*")))
        elif moment not in ("any", "start"):
            ready = ready and self.wait_until(lambda: any(self.folder.glob(f"{moment}.*.mark")))
        time.sleep(delay_s)
        return ready and self.process.poll() is None

    def hit(self, rank: int | None, number: signal.Signals) -> bool:
        """Send a signal to one rank; None to the launching process, and by it to all. False: it was gone."""
        pid = self.process.pid if rank is None else self.pids().get(rank)
        if pid is None or self.process.poll() is not None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True
