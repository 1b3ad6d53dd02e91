"""Trials of `make chaos`, and what counts as one."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

CHAOS = Path(__file__).with_name("chaos.py")


@pytest.mark.parametrize(
    ("num", "sizes"), [("1", "2"), pytest.param("3", "2,3", marks=pytest.mark.slow)], ids=["one", "three"]
)
def test_trials_end_like_the_undisturbed_run(num, sizes):
    command = [sys.executable, str(CHAOS), "--trials", num, "--seed", "7", "--ranks", sizes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("; equal, ") == int(num) and f"{num} of {num} equal" in done.stdout


@pytest.fixture
def chaos(monkeypatch):
    monkeypatch.syspath_prepend(str(CHAOS.parent))
    import chaos

    return chaos


class Scripted:
    """A run whose attempts end as they are told to."""

    num_ranks = 2
    checkpoints = ()

    def __init__(self, reached, struck, statuses):
        self.reached, self.struck, self.statuses = reached, struck, list(statuses)
        self.num_starts = 0

    def start(self):
        self.num_starts += 1

    def reach(self, moment, delay_s):
        return self.reached

    def hit(self, rank, number):
        return self.struck

    def finish(self):
        return self.statuses.pop(0), "said"


@pytest.mark.parametrize(("reached", "struck"), [(False, True), (True, False), (True, True)])
def test_a_run_that_ended_before_the_hit_is_no_trial(chaos, reached, struck):
    run = Scripted(reached, struck, [0])
    story, status, num_struck = chaos.trial(run, random.Random(0))
    assert (status, num_struck, run.num_starts) == (0, 0, 1) and "too late" in story


def test_a_hit_and_a_resume_are_one(chaos):
    story, status, num_struck = chaos.trial(Scripted(True, True, [3, 0, 0]), random.Random(0))
    assert status == 0 and num_struck >= 1 and "too late" not in story
    story, status, _ = chaos.trial(Scripted(True, True, [3, 3, 3]), random.Random(0))
    assert status == 3 and "the resume ended with 3" in story


def test_a_trial_that_was_too_late_is_done_again(chaos, monkeypatch, tmp_path):
    statuses = iter([[0], [0], [75, 0, 0]])
    monkeypatch.setattr(chaos, "Run", lambda folder, size: Scripted(True, True, next(statuses)))
    _, _, status, num_struck = chaos.struck_trial(tmp_path, 2, "0")
    assert status == 0 and num_struck >= 1 and next(statuses, None) is None
    monkeypatch.setattr(chaos, "Run", lambda folder, size: Scripted(True, True, [0]))
    assert chaos.struck_trial(tmp_path, 2, "0")[3] == 0


def test_a_difference_is_seen(chaos):
    differences = chaos.differences
    whole = {"checkpoint": "step-3", "tensors": {"w": "ab"}, "records": {"loss": [(1, 8, 0.5)]}}
    assert differences(whole, whole) == []
    assert differences(whole | {"tensors": {"w": "cd"}}, whole) == ["tensors: w"]
    assert differences(whole | {"records": {"loss": [(1, 8, 0.5)] * 2}}, whole) == ["records: loss"]
    assert differences(whole | {"records": {}, "checkpoint": "step-2"}, whole) == ["step-2", "records: loss"]
