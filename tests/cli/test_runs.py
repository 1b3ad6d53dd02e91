"""`hemostat runs`: at most 12 lines, readable for runs of any trainer, one clear line for mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hemostat.cli.main import run
from hemostat.track import Recorder, RunRecord, create_run, update_run, write_exit


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".hemostat" / "runs"


def make(root, run_id, created=1.8e9, **fields):
    path = create_run(root, run_id, {"created": created})
    with Recorder(path, 0) as recorder:
        recorder.log(100, 3200, {"loss": 0.5})
    full = {
        "task": {"spec": "examples/digits.py:Digits"},
        "command": ["hemostat", "train", "digits.py:Digits"],
        "provenance": {
            "git": {
                "state": "dirty",
                "commit": "c" * 40,
                "branch": "main",
                "dirty": True,
                "diff": "a\nb",
                "num_untracked": 3,
            },
            "hostname": "node7",
            "python": "3.11.7",
        },
        "hardware": {"num_ranks": 2, "name": "cpu", "torch": "2.13.0"},
        "seed": 3,
        "data": {"tier": "full", "digest": "ab" * 32, "num_samples": 1797},
        "recipe": [
            {
                "field": "lr",
                "value": 0.2,
                "before": 0.1,
                "why": "linear rule",
                "source": "Goyal 2017",
                "confidence": "high",
            },
            {"field": "momentum", "value": 0.9, "why": "given by the task"},
        ],
        "summary": {
            "monitor": "val_loss",
            "best": 0.25,
            "best_step": 80,
            "steps": 100,
            "samples": 3200,
            "usd": 0.5,
        },
    }
    update_run(path, **{**full, **fields})
    write_exit(path, 0, 0, "")
    return path


def call(capsys, *words):
    status = run(["runs", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_list_fits_in_12_lines(root, capsys):
    for index in range(30):
        make(root, f"20261130-12{index:02d}-aaaaa", created=1.8e9 + index)
    status, out, _ = call(capsys)
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 12)
    assert lines[0].split() == ["run", "state", "task", "ranks", "best", "samples", "time", "cost", "commit"]
    words = lines[1].split()
    assert words == [
        "20261130-1229-aaaaa",
        "done",
        "examples/digits.py:Digits",
        "2",
        "0.25",
        "3.2k",
        "$0.50",
        "ccccccc*",
    ]
    assert lines[-1] == "and 20 older; all: hemostat runs --num 0"
    assert max(map(len, lines)) <= 120
    assert len(call(capsys, "--num", "0")[1].splitlines()) == 31


def test_no_runs_yet(root, capsys):
    assert call(capsys)[:2] == (0, "no runs in .hemostat/runs. Start one: hemostat train FILE.py:CLASS\n")
    assert json.loads(call(capsys, "--json")[1]) == []
    status, _, err = call(capsys, "show")
    assert (status, "there are no runs" in err) == (2, True)


def test_one_run(root, capsys):
    make(root, "20261130-1200-aaaaa")
    status, out, _ = call(capsys, "show", "last")
    assert status == 0
    assert len(out.splitlines()) <= 12
    for part in (
        "done (exit status 0)",
        "val_loss 0.25 at step 80",
        "100 steps, 3200 samples, $0.50",
        "cccccccccccc on main, dirty: diff of 2 lines, 3 untracked",
        "abababababab (full fingerprint, 1797 samples)",
        "2 x cpu, node7, Python 3.11.7, torch 2.13.0, seed 3",
        "hemostat train digits.py:Digits",
    ):
        assert part in out
    out = call(capsys, "show", "1200", "--why")[1]
    assert "lr        0.1 -> 0.2: linear rule (high) [Goyal 2017]" in out
    assert "momentum  0.9: given by the task (given)" in out


def test_what_a_guard_found_is_shown_in_12_lines(root, capsys):
    told = [{"code": "HG007", "message": f"step {step} was skipped on rank 1."} for step in (3, 9)]
    path = make(root, "20261130-1200-aaaaa", verdicts=told)
    assert (
        "found    HG007 step 9 was skipped on rank 1. (1 before: --json, verdicts)" in call(capsys, "show")[1]
    )
    figures = {"val_loss": {"value": 0.5, "standard_error": 0.1}}
    RunRecord(path).add_evaluation("20261130-1300-aaaaa", {"split": "val", "figures": figures})
    lines = call(capsys, "show")[1].splitlines()
    assert len(lines) <= 12
    assert any(line.startswith("found ") for line in lines) and any(
        line.startswith("judged ") for line in lines
    )


def test_json_is_strict_and_complete(root, capsys):
    make(root, "20261130-1200-aaaaa", summary={"monitor": "val_loss", "best": float("nan")})

    def refuse(name):
        raise AssertionError(name)

    listed = json.loads(call(capsys, "--json")[1], parse_constant=refuse)
    assert (listed[0]["run"], listed[0]["best"], listed[0]["commit"]) == (
        "20261130-1200-aaaaa",
        "nan",
        "c" * 40,
    )
    shown = json.loads(call(capsys, "show", "--json")[1], parse_constant=refuse)
    assert (shown["seed"], shown["state"], shown["metrics"]) == (3, "done", ["loss"])
    assert shown["exit"] == {"status": 0, "why": ""}


def test_runs_of_another_trainer_that_say_little(root, capsys):
    path = create_run(
        root, "mine", {"note": "by hand", "task": "just a name", "recipe": ["x"], "data": 3, "hardware": 1}
    )
    assert "mine  running  just a name" in call(capsys)[1]
    assert "not recorded" in call(capsys, "show", "mine")[1]
    long_ago = time.time() - 7200
    os.utime(path, (long_ago, long_ago))
    assert "lost, last sign of life 2h00m ago: no rank wrote how it ended" in call(capsys, "show", "mine")[1]


def test_an_unreadable_run_is_listed_and_the_others_too(root, capsys):
    make(root, "20261130-1200-aaaaa")
    (make(root, "20261130-1201-bbbbb") / "run.json").write_text("{")
    _, out, _ = call(capsys)
    assert "20261130-1201-bbbbb  unreadable" in out
    assert "20261130-1200-aaaaa  done" in out
    status, _, err = call(capsys, "show", "bbbbb")
    assert (status, err.count("\n")) == (3, 1)
    assert "is not valid JSON" in err


def test_samples_of_the_last_evaluations(root, capsys):
    path = make(root, "20261130-1200-aaaaa")
    assert "show(self, output, batch)" in call(capsys, "show", "--samples")[1]
    for step in (10, 20, 30):
        RunRecord(path, {}).add_sample(step, "0", f"to be {step}\nor not")
    RunRecord(path, {}).add_sample(30, "picture", b"x")
    status, out, _ = call(capsys, "show", "--samples")
    assert status == 0
    assert out.splitlines() == [
        "step 20  0",
        "  to be 20",
        "  or not",
        "step 30  picture  .hemostat/runs/20261130-1200-aaaaa/samples/step-00000030.picture.png",
        "step 30  0",
        "  to be 30",
        "  or not",
        "and 1 earlier evaluation; all: --num 0",
    ]
    assert "to be 10" in call(capsys, "show", "--samples", "--num", "0")[1]
    assert [sample["step"] for sample in json.loads(call(capsys, "show", "--samples", "--json")[1])] == [
        10,
        20,
        30,
        30,
    ]
    status, _, err = call(capsys, "--samples")
    assert (status, "hemostat runs show last --samples" in err) == (2, True)


def test_compare(root, capsys):
    make(root, "20261130-1200-aaaaa")
    make(root, "20261130-1201-bbbbb", seed=4)
    status, out, _ = call(capsys, "compare", "aaaaa", "bbbbb")
    assert status == 0 and len(out.splitlines()) <= 12
    assert "seed" in out and "20261130-1201-bbbbb" in out
    status, out, err = call(capsys, "compare", "aaaaa", "last", "--json", "--plot")
    assert (status, json.loads(out)["differ"]) == (0, {"seed": [3, 4]})
    assert err == "wrote .hemostat/runs/compare.png\n" and (root / "compare.png").stat().st_size > 1000
    assert len(call(capsys)[1].splitlines()) == 3  # the picture is no run


def test_reindex(root, capsys):
    make(root, "20261130-1200-aaaaa")
    call(capsys)
    (root / "index.sqlite").write_bytes(b"garbage" * 500)
    assert "aaaaa" in call(capsys, "--reindex")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("shwo",), "action='shwo': is not known. Did you mean 'show'?"),
        (("show", "zzz"), "run='zzz': is not known."),
        (("list", "x"), "list takes no run. Write `hemostat runs show x`."),
        (("--num", "-1"), "--num"),
        (("compare", "aaaaa"), "compare needs two runs or more"),
        (("compare", "aaaaa", "zzz"), "run='zzz': is not known."),
        (("show", "aaaaa", "aaaaa"), "Write `hemostat runs compare aaaaa aaaaa`."),
        (("show", "aaaaa", "--plot"), "--plot belongs to compare"),
        (("--runs", "/dev/null"), "runs='/dev/null': is a file, not a folder."),
        (("show", "last", "--runs", "/dev/null"), "is a file, not a folder."),
    ],
)
def test_mistakes(root, capsys, words, said):
    make(root, "20261130-1200-aaaaa")
    status, out, err = call(capsys, *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_command_starts_without_torch_and_numpy(root):
    make(root, "20261130-1200-aaaaa")
    code = (
        "import sys; from hemostat.cli.main import run; status = run(['runs'])\n"
        "sys.exit(status or ('torch' in sys.modules) or ('numpy' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


FAILS = """
import os, torch, hemostat
class Line(hemostat.Task):
    def model(self): os.kill(os.getpid(), 9)
    def train_data(self): return torch.utils.data.TensorDataset(torch.ones(8, 3), torch.ones(8, 1))
    def loss(self, output, target): return output.sum(), len(target)
"""


@pytest.mark.parametrize("extra", [[], ["--set", "train.device=cuda"]], ids=["killed", "no device"])
def test_a_run_that_failed_at_its_start_is_listed_as_failed(root, capsys, extra):
    if extra and torch.cuda.is_available():
        pytest.skip("this machine has the device")
    Path("line.py").write_text(FAILS)
    words = [sys.executable, "-m", "hemostat", "train", "line.py:Line", "--nproc", "1", *extra]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    _, out, _ = call(capsys)
    cells = out.splitlines()[1].split()
    assert cells[1:4] == ["failed", "line.py:Line", "1"]
