"""Every way in which a trial can end is told apart."""

from __future__ import annotations

import pytest

from hemostat.track import create_run, write_exit
from hemostat.tune.outcomes import Seen, outcome_of

ABOVE = "rank 0 exited with status 1; what it said stands above"
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB"
NCCL = "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7) ran for 600000 milliseconds"
GUESS = " (when nobody did that, the machine ran out of memory)"
FAILURES = [
    (4, "loss or gradient was not finite in 11 steps in a row, up to step 20", "", "nan"),
    (4, "none of the 9 steps was applied: the loss counted nothing or was never finite", "", "nan"),
    (4, "the loss has climbed without a pause for 40 steps: 9 at step 60", "", "diverged"),
    (4, "weights differ between ranks 0 and 1", "", "crash"),
    (5, "max_hours=1h00m is reached", "", "timeout"),
    (75, "SIGTERM at 400 samples; saved", "", "preempted"),
    (143, "rank 0 was killed by SIGTERM", "", "preempted"),
    (137, f"rank 0 was killed by SIGKILL{GUESS}", f"error: rank 0 was killed by SIGKILL{GUESS}.", "crash"),
    (137, "rank 1 hangs in data after step 7 for 121 s (train.stall_s=120)", "", "timeout"),
    (1, ABOVE, f"Traceback\n{CUDA}", "out_of_memory"),
    (3, "train.py:9: MemoryError()", "", "out_of_memory"),
    (1, ABOVE, NCCL, "timeout"),
    (1, ABOVE, "ValueError: bad", "crash"),
    (2, "lr=-1: must be above 0", "", "crash"),
]


@pytest.fixture
def run_dir(tmp_path):
    return create_run(tmp_path, "s-t001", {"study": "s"})


@pytest.mark.parametrize(("status", "why", "output", "outcome"), FAILURES)
def test_failures_are_told_apart(run_dir, status, why, output, outcome):
    write_exit(run_dir, 0, status, why)
    found, sentence = outcome_of(run_dir, output, Seen(status=3, last=0.5))
    assert found == outcome
    assert sentence


def test_the_reason_of_a_script_is_its_last_line(run_dir):
    write_exit(run_dir, 0, 1, ABOVE)
    output = "epoch 1\nValueError: bad\nerror: rank 0 exited with status 1; what it said stands above.\n"
    assert outcome_of(run_dir, output, Seen(status=3))[1] == "rank 0 exited with status 1; ValueError: bad"
    assert "it said nothing" in outcome_of(run_dir, "", Seen(status=3))[1]


def test_the_memory_that_was_asked_for_is_named(run_dir):
    write_exit(run_dir, 0, 1, ABOVE)
    assert "Tried to allocate 20.00 GiB" in outcome_of(run_dir, CUDA, Seen(status=3))[1]


def test_the_name_of_the_run_makes_no_difference(run_dir):
    write_exit(run_dir, 0, 3, "run s-t001 has no file x")
    assert outcome_of(run_dir, "", Seen(status=3)) == ("crash", "run the run has no file x")


def test_a_process_that_left_no_word_crashed(run_dir):
    assert outcome_of(run_dir, "", Seen(status=3)) == ("crash", "its process is gone and left no word")


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (Seen(status=0, is_whole=True, last=0.5), "finished"),
        (Seen(status=0, is_whole=True, last=float("nan")), "nan"),
        (Seen(status=0, reached=True, can_pause=True, last=0.5), "paused"),
        (Seen(status=0, asked=True, can_pause=True, last=0.5), "paused"),
        (Seen(status=0, asked=True, last=0.5), "stopped"),
        (Seen(status=0, can_pause=True), "finished"),
    ],
)
def test_good_ends(run_dir, seen, outcome):
    write_exit(run_dir, 0, 0, "")
    assert outcome_of(run_dir, "", seen) == (outcome, "")


def test_whoever_was_asked_to_leave_has_not_failed(run_dir):
    write_exit(run_dir, 0, 143, "rank 0 was killed by SIGTERM")
    assert outcome_of(run_dir, "", Seen(status=3, asked=True, can_pause=True)) == ("stopped", "")
    write_exit(run_dir, 0, 75, "saved")
    assert outcome_of(run_dir, "", Seen(status=75, asked=True, can_pause=True)) == ("paused", "")
