"""`hemostat evaluate` as a user types it: figures with standard errors, counted looks, one message per mistake."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from hemostat.cli.main import run as hemostat
from hemostat.track import load_run

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    tuned_batch: int = 8
    epochs: float = 2
    num_test: int = 20

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
        return TensorDataset(x, x.sum(1, keepdim=True))

    def val_data(self):
        return torch.utils.data.Subset(self.train_data(), range(30))

    def test_data(self):
        return torch.utils.data.Subset(self.train_data(), range(self.num_test)) if self.num_test else None

    def loss(self, output, target):
        return ((output - target) ** 2).sum(), len(target)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "line.py").write_text(TASK)
    for extra in ([], ["--set", "num_test=0"]):
        words = [sys.executable, "-m", "hemostat", "train", "line.py:Line", "--no-plot", *extra]
        subprocess.run(
            words, cwd=folder, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
    return folder


@pytest.fixture
def here(trained, tmp_path, monkeypatch):
    """A copy: the older run has test data, the last one has none."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    for header in tmp_path.glob(".hemostat/runs/*/run.json"):
        header.write_text(header.read_text().replace(str(trained), str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def id_with_test_data(folder):
    runs = [
        load_run(folder / ".hemostat" / "runs", path.parent.name)
        for path in folder.glob(".hemostat/runs/*/run.json")
    ]
    return next(run.id for run in runs if run.header["task"]["values"]["num_test"])


def call(capfd, *words):
    status = hemostat(["evaluate", *words])
    captured = capfd.readouterr()
    return status, captured.out, captured.err


def test_figures_come_with_their_error_and_looks_are_counted(here, capfd):
    run = id_with_test_data(here)
    status, out, err = call(capfd, run, "--split", "test")
    assert status == 0, err
    lines = out.splitlines()
    assert len(lines) <= 12
    assert lines[0].startswith(f"run        {run}  line.py:Line  best weights of step ")
    assert lines[2].startswith("test_loss  ") and " ± " in lines[2] and "over samples" in lines[2]
    assert lines[3] == "looks      this run has been tested once."
    again = json.loads(call(capfd, run, "--split", "test", "--json", "--nproc", "2")[1])
    assert again["looks"] == {"run": 2, "all_runs": 2} and again["num_ranks"] == 2
    first, second = load_run(here / ".hemostat" / "runs", run).evaluations()
    assert first["figures"] == second["figures"]
    assert "looks" not in call(capfd, run)[1]  # validation
    hemostat(["runs", "show", run])
    shown = capfd.readouterr().out
    assert "judged   test_loss " in shown and "val_loss" in shown and "tested 2 times" in shown
    assert len(shown.splitlines()) <= 12


def test_any_checkpoint_is_named_by_its_step(here, capfd):
    for name in ("10", "step-10"):
        status, out, err = call(capfd, id_with_test_data(here), "--checkpoint", name)
        assert status == 0, err
        assert out.splitlines()[0].endswith("line.py:Line  weights of step 10")


def test_a_changed_task_file_is_said(here, capfd):
    (here / "line.py").write_text(TASK + "\n# another line\n")
    assert "note       line.py has changed since the run" in call(capfd, id_with_test_data(here))[1]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nope"], 2, "run='nope': is not known"),
        (["RUN", "--split", "tset"], 2, "Did you mean 'test'"),
        (["RUN", "--nproc", "0"], 2, "num_ranks=0"),
        (["RUN", "--nproc", "5000"], 2, "nproc=5000: is more than 16 processes for each of"),
        (["RUN", "--nproc", "31"], 2, "nproc=31: val_data has 30 samples"),
        (["RUN", "--checkpoint", "first"], 2, "checkpoint='first'"),
        (["RUN", "--checkpoint", "3"], 2, "checkpoint='step-3': is not known"),
        (["RUN", "--task", "gone.py:Line"], 2, "gone.py: no such file"),
        (["UNTESTED", "--split", "test"], 2, "has no test_data"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message_and_leaves_nothing(here, capfd, words, status, said):
    run = id_with_test_data(here)
    untested = next(
        path.parent.name for path in here.glob(".hemostat/runs/*/run.json") if path.parent.name != run
    )
    words = [{"RUN": run, "UNTESTED": untested}.get(word, word) for word in words]
    got, out, err = call(capfd, *words)
    assert (got, out) == (status, ""), err
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not list(here.glob(".hemostat/runs/*/evaluations/*"))


def test_missing_parts_of_a_run(here, capfd):
    run = id_with_test_data(here)
    (here / "line.py").rename(here / "moved.py")
    status, _, err = call(capfd, run)
    assert (status, err.count("\n")) == (2, 1) and "line.py, is not there any more" in err
    assert call(capfd, run, "--task", "moved.py:Line")[0] == 0
    checkpoints = here / ".hemostat" / "runs" / run / "checkpoints"
    for path in checkpoints.glob("*/*.distcp"):
        path.write_bytes(path.read_bytes()[:500])
    status, _, err = call(capfd, run, "--task", "moved.py:Line")
    assert (status, err.count("\n")) == (3, 1) and "is not whole: __0_0.distcp" in err
    shutil.rmtree(checkpoints)
    status, _, err = call(capfd, run, "--task", "moved.py:Line")
    assert (status, err.count("\n")) == (2, 1) and "has no checkpoints" in err


def test_torchrun_is_not_needed(here, capfd, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert "--nproc" in call(capfd, id_with_test_data(here))[2]
