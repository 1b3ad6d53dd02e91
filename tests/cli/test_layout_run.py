"""A run under stages, as a user types it: stopped early, evaluated from its best checkpoint, taken away."""

from __future__ import annotations

import json

import pytest
import torch

import hemostat
from hemostat.cli.main import run as command
from hemostat.track import load_run

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Curve(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 40
    optimizer: str = "sgd"
    schedule: str = "constant"
    patience: int = 3
    min_delta: float = 0.0
    eval_every_samples: int = 64
    def model(self):
        torch.manual_seed(1)
        first, last = torch.nn.Linear(3, 8), torch.nn.Linear(8, 1)
        return torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(8, 8), last)
    def train_data(self): return self._data(0, 64)
    def val_data(self): return self._data(1, 31)
    def test_data(self): return self._data(2, 29)
    def _data(self, seed, num):
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(num, 3, generator=draw)
        return TensorDataset(x, x.sum(1, keepdim=True) + torch.randn(num, 1, generator=draw))
    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)
    def metrics(self, output, target):
        return {"mae": ((output - target).abs().sum(), len(target))}
"""


def summary(*words: str) -> dict:
    assert command(["train", "line.py:Curve", "--no-plot", *words]) == 0
    return load_run(".hemostat/runs").summary


def judged(capfd, *words: str) -> dict:
    capfd.readouterr()
    assert command(["evaluate", "last", "--json", *words]) == 0
    return json.loads(capfd.readouterr().out)


def test_a_run_under_stages_ends_is_judged_and_taken_away_like_any_other(here, capfd):
    alone = summary("--nproc", "1", "--set", "accumulation=2")
    figures = judged(capfd, "--split", "test")["figures"]
    staged = summary("--layout", "pp=2", "--set", "accumulation=2")
    assert staged["steps"] == alone["steps"] < 320  # patience ended both at the same step
    assert staged["best_step"] == alone["best_step"]
    assert staged["best"] == pytest.approx(alone["best"], rel=1e-5)
    again = judged(capfd, "--split", "test")["figures"]
    for name, figure in figures.items():
        assert again[name]["value"] == pytest.approx(figure["value"], rel=1e-5)
    assert command(["export", "last", "away"]) == 0
    model = hemostat.load("away")
    with torch.no_grad():
        found = model(torch.ones(2, 3))
    assert torch.equal(found, hemostat.load("last")(torch.ones(2, 3)))
