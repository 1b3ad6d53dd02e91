"""A Hugging Face model as a task: the losses of the loop, any number of processes, judged, and taken away."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from hemostat.track import load_run
from hemostat.train import export_run, load

pytest.importorskip("transformers", reason="transformers is in the extra `bench`")


def python(folder, *words: str) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(examples, tmp_path_factory):
    """A folder in which the task was trained in two processes, and what the command printed."""
    folder = tmp_path_factory.mktemp("sums")
    task = f"{examples}/own_loop/hugging_face_task.py:Sums"
    return folder, python(folder, "-m", "hemostat", "train", task, "--json", "--nproc", "2")


def test_two_processes_end_where_the_loop_does_in_one(trained, examples):
    folder, printed = trained
    loop = python(folder, f"{examples}/own_loop/hugging_face_after.py")
    final = json.loads(printed.splitlines()[-1])["final"]
    assert final["val_loss"] == pytest.approx(float(loop.split()[-1]), rel=1e-4)


def test_it_is_judged_on_its_test_data(trained):
    folder, printed = trained
    run = json.loads(printed.splitlines()[-1])["run"]
    words = ("evaluate", run, "--split", "test", "--nproc", "2", "--json")
    judged = json.loads(python(folder, "-m", "hemostat", *words))
    assert judged["num_samples"] == 45 and judged["figures"]["test_loss"]["unit"] == "batch"


def test_the_export_is_a_hugging_face_folder(trained):
    from transformers import AutoModelForCausalLM

    folder, printed = trained
    run = json.loads(printed.splitlines()[-1])["run"]
    export_run(load_run(folder / ".hemostat" / "runs", run), folder / "sums")
    ids = torch.tensor([[7, 10, 5, 11]])
    theirs = AutoModelForCausalLM.from_pretrained(folder / "sums")
    torch.testing.assert_close(load(folder / "sums")(ids).logits, theirs(ids).logits)
