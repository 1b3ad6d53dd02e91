"""`hemostat data probe`: figures, JSON, and usage errors with their exit status."""

import json

import pytest

from hemostat.cli.main import run

TASK = """
import torch
import hemostat

class Line(hemostat.Task):
    tuned_batch: int = 8

    def model(self):
        return torch.nn.Linear(1, 1)

    def train_data(self):
        return [(torch.tensor([float(i)]), torch.tensor([1.0])) for i in range(64)]

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setattr("hemostat.data.advice.BUDGET_S", 0.1)
    (tmp_path / "probed_line.py").write_text(TASK)
    return str(tmp_path / "probed_line.py")


def test_the_ways_and_their_gains(task, capsys):
    assert run(["data", "probe", task]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("one thread reads a batch of 8 in ")
    assert lines[1].startswith("batch fetch ")
    assert "x  give it __getitems__" in lines[1]
    assert len(lines) <= 12


def test_as_json(task, capsys):
    assert run(["data", "probe", task, "--json", "--micro-batch", "4"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["micro_batch"] == 4
    assert {advice["way"] for advice in found["advice"]} >= {"batch fetch", "stored copy"}


def test_usage_errors(task, capsys):
    assert run(["data", "probe", "absent.py"]) == 2
    assert run(["data", "probe", task, "--set", "nosuch=1"]) == 2
    assert run(["data", "probe", task, "--micro-batch", "0"]) == 2
    assert run(["data"]) == 2
    assert "absent.py: no such file" in capsys.readouterr().err
