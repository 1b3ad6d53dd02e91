"""`hemostat tune` with real processes: a script and a task, a signal, kills, and what is refused."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from hemostat.cli.main import run
from hemostat.tune.journal import read_journal
from hemostat.tune.state import State

PARALLEL = str(min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1))
TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

def rows(num):
    x = torch.randn(num, 3, generator=torch.Generator().manual_seed(num))
    return TensorDataset(x, x.sum(1, keepdim=True))

class Line(hemostat.Task):
    lr: float = 0.05
    tuned_batch: int = 8
    epochs: float = 6
    optimizer: str = "sgd"

    def model(self): return torch.nn.Linear(3, 1)
    def train_data(self): return rows(64)
    def val_data(self): return rows(80)
    def loss(self, output, target): return ((output - target) ** 2).sum(), len(target)
"""
PRINTS = """
import math, sys, time
lr = float(sys.argv[1])
for epoch in range(1, 10):
    time.sleep(0.01)
    print(f"epoch {epoch} val_loss={(math.log10(lr) + 2) ** 2 + 1 / epoch:.6f}", flush=True)
"""
# pauses and goes on from its own checkpoint; the run directory keeps the step of each start
PAUSES = """
import math, os, pathlib, sys, time
from hemostat.track import Recorder, control
run, lr = pathlib.Path(os.environ["HEMOSTAT_RUN_DIR"]), float(sys.argv[1])
state = run / "state.txt"
at = int(state.read_text()) if state.exists() else 0
with (run / "starts.log").open("a") as log: log.write(f"{at}\\n")
with Recorder(run, rank=0) as recorder:
    while at < 9 and not control().due(at):
        time.sleep(float(sys.argv[2]))
        at += 1
        recorder.log(at, at, {"val_loss": (math.log10(lr) + 2) ** 2 + 1 / at})
        (run / "half").write_text(str(at)); (run / "half").replace(state)
"""
SPACE = "lr = [1e-4, 1e-3, 1e-2, 1e-1]\n"


@pytest.fixture
def script(here) -> Path:
    (here / "space.toml").write_text(SPACE)
    (here / "prints.py").write_text(PRINTS)
    (here / "pauses.py").write_text(PAUSES)
    return here


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hemostat", "tune", *words]


def tune(*words: str, timeout: float = 90) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=timeout, check=False)


def of_script(file: str, *words: str, more: str = "0.01") -> list[str]:
    flags = ["--space", "space.toml", "--max-hours", "60s", "--parallel", PARALLEL, "--set", "tune.name=s"]
    return [*flags, "--set", "tune.length=9", *words, "--", sys.executable, file, "{lr}", more]


def state_of(here: Path, name: str = "s") -> State:
    return State.of(read_journal(here / ".hemostat" / "studies" / name / "journal.jsonl"))


def until(holds, process) -> None:
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def num_measured(here: Path) -> int:
    path = here / ".hemostat" / "studies" / "s" / "journal.jsonl"
    return path.read_text().count('"kind":"progress"') if path.exists() else 0


def test_a_script_is_tuned_and_the_answer_is_its_command(script):
    done = tune(*of_script("prints.py"))
    assert done.returncode == 0, done.stderr
    assert "space    lr  0.0001, 0.001, 0.01, 0.1" in done.stderr
    assert "cost     at most 1m00s" in done.stderr
    assert re.search(r"best     val_loss 0\.1111: trial \d", done.stdout)
    assert done.stdout.rstrip().endswith("prints.py 0.01 0.01")
    assert "unspent" in done.stdout
    state = state_of(script)
    assert len({json.dumps(trial.config) for trial in state.history.trials}) == 4, (
        "no configuration came twice"
    )
    runs = sorted(path.name for path in (script / ".hemostat" / "runs").glob("s-t*"))
    assert runs == [f"s-t{number:03d}" for number in range(4)]


def test_the_answer_as_json(script):
    done = tune(*of_script("prints.py", "--json"))
    assert json.loads(done.stdout)["best"] == {
        "trial": json.loads(done.stdout)["best"]["trial"],
        "value": pytest.approx(1 / 9, abs=1e-6),
        "at": 9,
        "config": {"lr": 0.01},
    }


def test_a_task_is_tuned_and_promoted_from_its_checkpoint(here):
    (here / "space.toml").write_text("lr = [0.01, 0.1]\n")
    words = ["line.py:Line", "--space", "space.toml", "--max-usd", "1", "--parallel", PARALLEL]
    settings = ["train.usd_per_hour=3", "train.self_check=false", "tune.name=s", "tune.pruner=halving"]
    done = tune(*words, *(word for each in settings for word in ("--set", each)))
    assert done.returncode == 0, done.stderr
    state = state_of(here)
    winner = next(trial for trial in state.history.trials if trial.config["lr"] == 0.1)
    assert winner.outcome == "finished"
    output = (here / ".hemostat" / "runs" / f"s-t{winner.number:03d}" / "output.log").read_text()
    assert "goes on at step" in output
    assert [point.at for point in winner.points] == sorted({point.at for point in winner.points})
    best = here / ".hemostat" / "studies" / "s" / "best.toml"
    assert tomllib.loads(best.read_text())["lr"] == 0.1
    assert f"hemostat train line.py:Line --config {best.relative_to(here)}" in done.stdout
    assert 0 < state.spending.ended_s * state.settings.budget.usd_per_s < 1


def test_ctrl_c_saves_the_trials_and_the_study_goes_on(script):
    process = subprocess.Popen(
        command(*of_script("pauses.py", more="0.2")), stderr=subprocess.PIPE, text=True
    )
    until(lambda: num_measured(script) >= 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 75, said
    assert "SIGINT: all trials are saved; go on with: hemostat tune --resume s" in said
    left = state_of(script)
    assert not left.running
    assert {trial.outcome for trial in left.history.trials} <= {"paused", "finished"}
    assert_goes_on(script)


def test_ctrl_c_costs_a_script_that_cannot_pause_its_run_and_no_more(script):
    (script / "prints.py").write_text(PRINTS.replace("time.sleep(0.01)", "time.sleep(float(sys.argv[2]))"))
    process = subprocess.Popen(
        command(*of_script("prints.py", more="0.2")), stderr=subprocess.PIPE, text=True
    )
    until(lambda: num_measured(script) >= 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 75, said
    done = tune("--resume", "s")
    assert done.returncode == 0, done.stderr
    trials = state_of(script).history.trials
    assert len({json.dumps(trial.config) for trial in trials}) == len(trials) == 4
    assert any(trial.outcome == "finished" and trial.config["lr"] == 0.01 for trial in trials)


def test_the_cap_is_hard_and_leaves_nobody_behind(script):
    (script / "prints.py").write_text(PRINTS.replace("range(1, 10)", "range(1, 10**6)"))
    begun_s = time.monotonic()
    done = tune(*of_script("prints.py", "--max-hours", "4s", "--set", "tune.length=1000000"))
    assert time.monotonic() - begun_s < 20
    assert done.returncode == 5, done.stderr
    assert state_of(script).clock_s <= 4.0
    for record in (script / ".hemostat" / "runs").glob("s-t*"):
        assert (record / "exit.0.json").exists()


def test_kill_9_of_the_controller_loses_nothing_and_doubles_nothing(script):
    process = subprocess.Popen(command(*of_script("pauses.py", more="0.1")), stderr=subprocess.DEVNULL)
    until(lambda: num_measured(script) >= 6, process)
    process.kill()
    process.wait()
    assert_goes_on(script)


def assert_goes_on(script: Path) -> None:
    before = state_of(script)
    done = tune("--resume", "s")
    assert done.returncode == 0, done.stderr
    after = state_of(script)
    for old, new in zip(before.history.trials, after.history.trials, strict=False):
        assert new.config == old.config
        assert new.points[: len(old.points)] == old.points
    assert len({json.dumps(trial.config) for trial in after.history.trials}) == len(after.history.trials) == 4
    for trial in after.history.trials:
        assert [point.at for point in trial.points] == list(range(1, trial.position + 1))
        starts = (script / ".hemostat" / "runs" / f"s-t{trial.number:03d}" / "starts.log").read_text().split()
        assert list(map(int, starts)) == sorted(map(int, starts)), (
            "each start goes on where the one before was"
        )
    best = min(trial.points[-1].value for trial in after.history.trials if trial.outcome == "finished")
    assert best == pytest.approx(1 / 9, abs=1e-6)


def test_a_study_that_has_ended_goes_on_with_more_budget(script):
    first = tune(*of_script("prints.py"))
    again = tune("--resume", "s", "--max-hours", "2")
    assert again.returncode == first.returncode == 0, again.stderr
    assert state_of(script).settings.budget.max_s == 7200.0


def refused(*words: str) -> str:
    done = tune(*words)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_cannot_be_meant_is_refused_with_the_fix(script):
    many = str(10_000)
    assert f"Write --parallel {os.cpu_count()}" in refused(*of_script("prints.py", "--parallel", many))
    assert "Write --max-hours 6 or --max-usd 40" in refused("--space", "space.toml", "--", "true", "{lr}")
    assert "train.usd_per_hour" in refused("--max-usd", "4", "--space", "space.toml", "--", "true", "{lr}")
    assert "Write --space space.toml" in refused("--max-hours", "1", "--", "true", "{lr}")
    assert "placeholder='rate'" in refused(
        "--max-hours", "1", "--space", "space.toml", "--", "true", "{rate}"
    )
    assert "'lr': is not used by the command" in refused(
        "--max-hours", "1", "--space", "space.toml", "--", "true"
    )
    assert "There is none in this folder yet" in refused("--resume", "s")
    assert "hemostat tune FILE.py:CLASS" in refused("--max-hours", "1")
    assert not (script / ".hemostat").exists(), "nothing is left of what was refused"


def test_a_metric_that_never_appears_ends_the_study(script):
    said = refused(*of_script("prints.py", "--metric", "max:accuracy"))
    assert "metric='accuracy': never appeared in run s-t00" in said
    assert "It gave: val_loss" in said


def test_a_direction_that_looks_wrong_is_asked_about(script):
    done = tune(*of_script("prints.py", "--metric", "max:val_loss", "--set", "tune.pruner=none"))
    assert done.returncode == 1
    assert "question: direction='max', but every trial gets lower" in done.stderr
    assert "hemostat tune --resume s --yes" in done.stderr
    assert tune("--resume", "s", "--yes").returncode == 0


def test_a_script_that_ignores_its_parameters_is_found_out(script):
    (script / "prints.py").write_text(
        "for epoch in (1, 2, 9): print(f'epoch {epoch} val_loss={1 / epoch}')\n"
    )
    done = tune(*of_script("prints.py", "--set", "tune.pruner=none"))
    assert done.returncode == 1
    assert "the script ignores its parameters" in done.stderr


def test_a_script_that_always_fails_ends_the_study_with_its_own_words(script):
    (script / "prints.py").write_text("raise ValueError('no data here')\n")
    done = tune(*of_script("prints.py"))
    assert done.returncode == 3
    assert "4 attempts in a row crashed" in done.stderr
    assert "ValueError: no data here" in done.stderr


def test_a_second_controller_is_refused(script):
    process = subprocess.Popen(command(*of_script("pauses.py", more="0.2")), stderr=subprocess.DEVNULL)
    until(lambda: num_measured(script) >= 1, process)
    done = tune("--resume", "s")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 75
    assert done.returncode == 3
    assert f"process {process.pid} on" in done.stderr


def small_loss(n: float, lr: float, batch: int) -> float:
    """Lowest at a rate that falls with the size as N^-0.5 and a batch that grows as N^0.5."""
    grown = (n / 1e6) ** 0.5
    return 3 + math.log(lr * grown / 0.01) ** 2 + math.log(batch / 32 / grown) ** 2


SMALL = "num_params,num_tokens,lr,batch,loss\n" + "".join(
    f"{n},{20 * n},{lr},{batch},{small_loss(n, lr, batch)}\n"
    for n in (1e6, 4e6, 16e6)
    for lr in (0.04, 0.02, 0.01, 0.005, 0.0025, 0.00125)
    for batch in (16, 32, 64, 128, 256)
)


def test_a_script_starts_where_smaller_runs_say(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.csv").write_text(SMALL)
    (tmp_path / "space.toml").write_text("rate = {low = 1e-5, high = 1e-1}\nbatch = [32, 64, 128, 256, 512]")
    (tmp_path / "train.py").write_text("print('val_loss=0.5 step=1')")
    (tmp_path / "law.toml").write_text(
        '[tune]\nname = "large"\n[tune.law]\nruns = "small.csv"\nnum_params = 64e6\nnum_tokens = 1280e6\n'
        'names = ["rate", "batch"]\n'
    )
    words = ["tune", "--space", "space.toml", "--config", "law.toml", "--max-hours", "5s", "--"]
    run([*words, sys.executable, "train.py", "{rate}", "{batch}"])
    _, err = capsys.readouterr()
    assert "law      rate=0.00125" in err and "batch=256" in err
    first = State.of(read_journal(tmp_path / ".hemostat/studies/large/journal.jsonl")).history.trials[0]
    assert first.origin == "scaling law"
    assert first.config["batch"] == 256 and first.config["rate"] == pytest.approx(0.00125, rel=0.02)


def test_a_law_that_cannot_be_meant_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.csv").write_text(SMALL)
    (tmp_path / "space.toml").write_text("lr = {low = 1e-5, high = 1e-1}")
    law = ["--set", "tune.law={runs = 'small.csv', num_params = 64e6, num_tokens = 1e9}"]
    words = ["tune", "--space", "space.toml", "--max-hours", "5s", *law, "--", sys.executable, "x.py", "{lr}"]
    assert run(words) == 2
    assert "'batch' is not in the space" in capsys.readouterr().err
    assert not (tmp_path / ".hemostat/studies").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--set tune.name=../evil", "tune.name='../evil': is no plain name"),
        ("--metric max:", "metric='max:': names no metric"),
    ],
)
def test_a_name_that_cannot_be_meant_leaves_nothing(tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text("lr = {low = 1e-4, high = 1e-1}")
    typed = f"tune --space space.toml --max-hours 9s {words} --".split()
    assert run([*typed, sys.executable, "x.py", "{lr}"]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / ".hemostat").exists()


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ("other.py:Task", "task"),
        ("--metric max:acc", "metric"),
        ("--space nope.toml", "space"),
        ("--nproc 7", "nproc"),
        ("--set tune.sampler=kde", "--set"),
    ],
)
def test_a_study_that_goes_on_keeps_what_it_was_begun_with(capsys, words, field):
    assert run(["tune", "--resume", "some", *words.split()]) == 2
    assert f"error: {field}=" in capsys.readouterr().err
