"""`hemostat verify` as a user types it, with real jobs."""

from __future__ import annotations

import json

import pytest

from hemostat.cli.main import run as hemostat

pytestmark = pytest.mark.slow

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    lr: float = 0.01
    tuned_batch: int = 8
    num: int = 40
    power: float = 1.0

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        x = torch.randn(self.num, 3, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True))

    def loss(self, output, target):
        return ((output - target) ** 2).sum() * len(target) ** (self.power - 1), len(target)
"""


def call(capfd, *words):
    status = hemostat(["verify", *words])
    captured = capfd.readouterr()
    return status, captured.out, captured.err


def test_a_good_task_passes_and_leaves_nothing(here, capfd):
    status, out, err = call(capfd, "line.py:Line", "--nproc", "2")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("verify     line.py:Line  first 40 of 40 samples, 6 steps of 16")
    assert [line.split()[0] for line in lines[1:]] == ["processes", "1", "2", "verdict"]
    assert lines[-1] == "verdict    1, 2 processes take the same steps, and a resumed run too"
    assert not (here / ".hemostat").exists()


def test_a_fault_is_status_1_with_its_name(here, capfd):
    status, out, err = call(capfd, "line.py:Line", "--nproc", "2", "--json", "--set", "power=2")
    assert (status, err) == (1, "")
    found = json.loads(out)
    assert [finding["code"] for finding in found["findings"]] == ["HV001"]
    assert found["equal"] is False and found["table"]["2"]["loss"] > 0.1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.py:Line"], "gone.py: no such file"),
        (["gone.py"], "gone.py: no such file"),
        (["line.py:Lime"], "has no class Lime"),
        (["nothing.py"], "built no hemostat Session"),
        (["line.py:Line", "--nproc", "0"], "nproc='0': has a number below 1"),
        (["line.py:Line", "--nproc", "two"], "nproc='two': is not a list of numbers"),
        (["line.py:Line", "--nproc", "1,2,3,4,5,6"], "asks for more than 5 numbers"),
        (["line.py:Line", "--nproc", "2", "--set", "num=1"], "1 sample"),
        (["nothing.py", "--set", "lr=1"], "settings are for a task"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message(here, capfd, words, said):
    (here / "nothing.py").write_text("print(1)\n")
    status, out, err = call(capfd, *words)
    assert (status, out) == (2, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err


def test_torchrun_is_not_needed(here, capfd, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert "--nproc" in call(capfd, "line.py:Line")[2]
