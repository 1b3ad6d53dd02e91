"""Data that are whole on one rank and not on the other: the job ends with one message that has rank and file."""

from __future__ import annotations

import re

import pytest

from hemostat.cli.main import run

TASK = """
import os
import torch
import hemostat
from hemostat.data import TokenFile

class Rows(torch.utils.data.Dataset):
    def __init__(self, fault):
        self.fault = fault if os.environ.get("RANK") == "1" else ""
        self.num_samples, self.num_reads = 64, 0
        if self.fault == "construction":
            open("shard-3.bin")

    def __len__(self):
        return self.num_samples

    def __getitem__(self, index):
        self.num_reads += 1
        if self.fault == "item" and index % 7 == 3:
            open("shard-3.bin")
        if self.fault == "length" and self.num_reads > 70:
            self.num_samples = 32
        return torch.full((4,), float(index)), torch.tensor([1.0])

class Line(hemostat.Task):
    fault: str = ""
    optimizer: str = "sgd"
    lr: float = 1e-5
    tuned_batch: int = 8
    epochs: float = 6

    def model(self):
        return torch.nn.Linear(4, 1)

    def train_data(self):
        return Rows(self.fault)

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), target.numel()
"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "construction",
            r"Line\.train_data raised FileNotFoundError: .*shard-3\.bin.* on rank 1 of 2 \(host ",
        ),
        ("item", r"sample \d+ raised FileNotFoundError: .*shard-3\.bin.* on rank 1 of 2 \(host "),
        ("length", r"train_data had 64 samples at the start and has 32 now on rank 1 of 2 \(host "),
    ],
)
def test_a_fault_of_one_rank_is_said_once_with_that_rank(tmp_path, monkeypatch, capfd, fault, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "line.py").write_text(TASK)
    status = run(
        ["train", "line.py:Line", "--nproc", "2", "--set", f"fault={fault}", "--set", "train.device=cpu"]
    )
    out, err = capfd.readouterr()
    assert status == 2, err
    assert len(re.findall(said, out + err)) == 1, out + err
    assert "Traceback" not in out + err
