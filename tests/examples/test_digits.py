"""Digits with short settings: the data are split once, the task learns, and the comparison has its four rows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_the_parts_do_not_overlap(example):
    train, val = example("digits").load()
    assert (len(train), len(val)) == (1437, 360)
    rows = {tuple(image.tolist()) for image in train.tensors[0]}
    assert len(rows) == len(train)
    assert not any(tuple(image.tolist()) in rows for image in val.tensors[0])


def test_one_process_reads_most_digits(examples, tmp_path):
    command = [sys.executable, "-m", "hemostat", "train", f"{examples}/digits.py:Digits", "--json"]
    command += ["--set", "epochs=3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["final"]["val_accuracy"] > 0.85


def test_scaled_curves_agree_and_the_unscaled_one_lags(example, tmp_path, capsys):
    curves = example("compare_digits").main(["--seeds", "1", "--runs", str(tmp_path), "--set", "epochs=6"])
    last = {name: repeats[0][-1][2] for name, repeats in curves.items()}
    scaled = [last["1 process"], last["2 processes"], last["4 processes"]]
    assert max(scaled) < 1.25 * min(scaled)
    assert last["4 processes, rate not scaled"] > 1.4 * max(scaled)
    assert len(list(tmp_path.glob("compare-*.png"))) == 1
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_a_failed_run_says_why(example, tmp_path):
    compare = example("compare_digits")
    with pytest.raises(RuntimeError, match=r"nosuch.*is not known"):
        compare.train(compare.PLANS[0], tmp_path, ("nosuch=1",))
