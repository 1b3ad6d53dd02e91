"""`hemostat train` as a user types it: real processes, one clear message for every mistake, no hang."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Line(hemostat.Task):
    optimizer: str = "sgd"
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 4
    rows: int = 40
    poison: int = -1
    fault: str = ""

    def model(self):
        return torch.nn.Linear(3, 1)

    def train_data(self):
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(self.rows, 3, generator=generator)
        if self.poison >= 0:
            x[self.poison] = float("nan")
        return TensorDataset(x, x.sum(1, keepdim=True))

    def val_data(self):
        return self.train_data() if self.poison < 0 else None

    def loss(self, output, target):
        if self.fault == "shape":
            return (output - target) ** 2
        if self.fault == "raise" and torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
            raise RuntimeError("only here")
        return ((output - target) ** 2).sum(), len(target)
"""


def words(*args: str) -> list[str]:
    return [sys.executable, "-m", "hemostat", "train", *args]


def hemostat(*args: str, timeout_s: float = 90.0) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(words(*args), capture_output=True, text=True, timeout=timeout_s, env=environment)


@pytest.mark.parametrize("nproc", ["1", "2"])
def test_a_run_ends_with_a_summary_of_at_most_12_lines(here, nproc):
    done = hemostat(
        "line.py:Line", "--nproc", nproc, "--set", "global_batch=16", "--set", "train.usd_per_hour=3.2"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 12
    run_id = re.search(r"run +(\S+)", lines[0])[1]
    for part in (
        "line.py:Line",
        "batch 8 -> 16",
        "lr 0.05 -> 0.1",
        "val_loss",
        "stopped",
        "cost $",
        "loss.png",
    ):
        assert part in done.stdout
    assert lines[-1] == f"next     hemostat runs show {run_id} --why"
    assert (here / ".hemostat" / "runs" / run_id / "loss.png").stat().st_size > 1000
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr


def test_why_gives_the_reason_of_each_value(here):
    done = hemostat("line.py:Line", "--why", "--no-plot", "--set", "global_batch=16")
    rates = [line for line in done.stdout.splitlines() if line.startswith("lr = 0.1")]
    assert len(rates) == 1 and "linear" in rates[0] and "1706.02677" in rates[0]


def test_json_is_one_object(here):
    done = hemostat("line.py:Line", "--json", "--set", "lr=0.1")
    outcome = json.loads(done.stdout)
    assert outcome["state"] == "done" and outcome["steps"] == 20 and outcome["best"] < 1.0


def test_settings_come_from_toml_and_then_from_set(here):
    (here / "run.toml").write_text("lr = 0.01\nepochs = 2\n[train]\nseed = 5\n")
    done = hemostat("line.py:Line", "--config", "run.toml", "--set", "epochs=1", "--json")
    assert json.loads(done.stdout)["steps"] == 5
    (run,) = (here / ".hemostat" / "runs").glob("*/run.json")
    header = json.loads(run.read_text())
    assert header["seed"] == 5 and header["task"]["values"]["lr"] == 0.01


def test_the_file_of_hemostat_recipe_runs_as_it_says(here):
    recipe = [
        sys.executable,
        "-m",
        "hemostat",
        "recipe",
        "line.py:Line",
        "--num-ranks",
        "2",
        "--global-batch",
        "16",
    ]
    done = subprocess.run([*recipe, "--output", "two.toml"], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    done = hemostat("line.py:Line", "--config", "two.toml", "--no-plot")
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stdout and "batch 16 (2 x 8)  lr 0.1" in done.stdout


def test_plain_torchrun_works_and_makes_one_run(here):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "hemostat", "train", "line.py:Line"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    (run,) = (here / ".hemostat" / "runs").glob("*/run.json")
    assert json.loads(run.read_text())["summary"]["steps"] == 20
    assert len(list(run.parent.glob("metrics.*.jsonl"))) == 2


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["nothing.py:Line"], 2, "nothing.py: no such file"),
        (["line.py:Lin"], 2, "no class Lin"),
        (["line.py:Line", "--set", "learning_rate=1"], 2, "Known: "),
        (["line.py:Line", "--set", "train.sed=1"], 2, "Did you mean 'seed'"),
        (["line.py:Line", "--set", "lr=fast"], 2, "lr='fast'"),
        (["line.py:Line", "--set", "lr"], 2, "Write it like --set lr=0.1"),
        (["line.py:Line", "--config", "none.toml"], 2, "no such file"),
        (["line.py:Line", "--set", "fault=shape"], 2, "return (loss.sum(), loss.numel())"),
        (["line.py:Line", "--set", "rows=0"], 2, "0 samples"),
        (["line.py:Line", "--set", "rows=1", "--nproc", "2"], 2, "2 ranks"),
        (["line.py:Line", "--set", "poison=7"], 2, "NaN or infinity"),
        (["line.py:Line", "--set", "poison=7", "--nproc", "2"], 2, "NaN or infinity"),
        (["line.py:Line", "--nproc", "0"], 2, "num_ranks=0"),
        (["line.py:Line", "--nproc", "-2"], 2, "num_ranks=-2"),
        (["line.py:Line", "--max-restarts", "-1"], 2, "max_restarts=-1"),
        (["line.py:Line", "--set", "launch.port=99999"], 2, "port=99999"),
        (["line.py:Line", "--set", "launch.port=high"], 2, "launch.port='high'"),
        (["line.py:Line", "--set", "launch.prot=1"], 2, "Did you mean 'port'"),
        (["line.py:Line", "--set", "launch=3"], 2, "launch=3: is a section"),
        (["line.py:Line", "--set", "num_ranks=abc"], 2, "num_ranks='abc'"),
        (["line.py:Line", "--set", "train=3"], 2, "train=3: is a section"),
        (["line.py:Line", "--set", "train.num_threads=0"], 2, "train.num_threads=0"),
        (["line.py:Line", "--set", "train.device=cpuu"], 2, "Did you mean 'cpu'"),
        (["line.py:Line", "--set", "ema=0.9"], 2, "ema=0.9"),
        (["line.py:Line", "--set", "global_batch=128"], 2, "lr_rule"),
        (["line.py:Line", "--set", "fault=raise", "--nproc", "2"], 2, "only here"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_message_and_no_run(here, args, status, said):
    done = hemostat(*args)
    assert done.returncode == status, (done.stdout, done.stderr)
    errors = [line for line in done.stderr.splitlines() if "rror" in line]
    assert len(errors) == 1 and errors[0].startswith("error: ") and said in errors[0], done.stderr
    assert "Traceback" not in done.stderr
    runs = here.glob(".hemostat/runs/2*")  # NaN in the data is found after some steps
    assert all(any(path.stat().st_size for path in run.glob("metrics.*")) for run in runs)


def test_a_run_directory_that_cannot_be_written(here):
    (here / "taken").write_text("a file")
    done = hemostat("line.py:Line", "--runs", "taken/runs")
    assert done.returncode == 3
    assert done.stderr.startswith("error: ") and "taken" in done.stderr and done.stderr.count("\n") == 1


def test_a_port_in_use_is_named_before_anything_starts(here):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = hemostat("line.py:Line", "--nproc", "2", "--set", f"launch.port={port}")
    assert done.returncode == 3
    assert str(port) in done.stderr and done.stderr.count("\n") == 1
    assert not list((here / ".hemostat" / "runs").glob("2*"))


@pytest.mark.parametrize(
    ("nproc", "number"), [("1", signal.SIGTERM), ("2", signal.SIGTERM), ("1", signal.SIGINT)]
)
def test_a_signal_before_the_first_step_leaves_no_run(here, nproc, number):
    process = subprocess.Popen(words("line.py:Line", "--nproc", nproc), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    # the file is written once the launcher hands signals on; importing torch takes longer than that
    while not list(here.glob(".hemostat/runs/*/given.toml")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert f"error: {number.name} before the first step; nothing was lost\n" in err
    assert not list(here.glob(".hemostat/runs/2*"))


@pytest.mark.parametrize("nproc", ["1", "2"])
def test_ctrl_c_saves_and_says_so(here, nproc):
    process = subprocess.Popen(
        words("line.py:Line", "--nproc", nproc, "--set", "epochs=1000000", "--no-plot"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = here / ".hemostat" / "runs"
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1000 for path in runs.glob("*/metrics.0.jsonl")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert "SIGINT" in out + err and "Traceback" not in err
    assert list(runs.glob("*/checkpoints/step-*"))
