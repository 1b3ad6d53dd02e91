"""`hemostat data`: figures, the copy, JSON, and usage errors with their exit status."""

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
    assert "batch fetch" in {advice["way"] for advice in found["advice"]}


def test_usage_errors(task, capsys):
    assert run(["data", "probe", "absent.py"]) == 2
    assert run(["data", "probe", task, "--set", "nosuch=1"]) == 2
    assert run(["data", "probe", task, "--micro-batch", "0"]) == 2
    assert run(["data"]) == 2
    assert "absent.py: no such file" in capsys.readouterr().err


def test_a_copy_is_written_and_told_how_to_use(task, tmp_path, capsys):
    assert run(["data", "prepare", task, "--out", str(tmp_path / "copy")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("64 samples, ") and lines[1].startswith("return it from train_data(): ")
    data = eval(
        lines[1].partition(": ")[2], {"hemostat": __import__("hemostat.data")}
    )  # the line can be pasted
    assert len(data) == 64 and data[5][0].item() == 5
    assert data.recipe["git"].keys() == {"commit", "dirty"} and "probed_line.py:Line" in data.recipe["task"]
    assert run(["data", "prepare", task, "--out", str(tmp_path / "copy")]) == 2
    assert "already and not empty" in capsys.readouterr().err


def test_the_recipe_as_json(task, tmp_path, capsys):
    assert run(["data", "prepare", task, "--out", str(tmp_path / "copy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_samples"] == 64


def test_usage_errors_of_prepare(task, tmp_path, capsys):
    assert run(["data", "prepare", task]) == 2
    assert run(["data", "prepare", task, "--out", str(tmp_path / "copy"), "--split", "test"]) == 2
    assert run(["data", "prepare", task, "--out", str(tmp_path / "copy"), "--split", "dev"]) == 2
    said = capsys.readouterr().err
    assert "has no test_data" in said and "train, val" in said
