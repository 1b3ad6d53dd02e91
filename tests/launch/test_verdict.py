"""The verdict: what ranks decided, what they told, and who speaks for the dead."""

from __future__ import annotations

import signal

import pytest

from hemostat.launch import Job
from hemostat.launch.verdict import LOG, Seen, verdict
from hemostat.track import write_exit
from hemostat.track.exits import read_exit


@pytest.fixture
def job(tmp_path):
    return Job(command=("true",), num_ranks=2, run_id="r", run_dir=tmp_path)


def agent_says(job, *failures):
    blocks = [
        f"rank : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {100 + rank})\n"
        for rank, code in failures
    ]
    (job.run_dir / LOG).write_text("".join(blocks))


def test_success_is_written_where_nobody_wrote(job):
    assert verdict(job, 0, Seen()) == 0
    assert read_exit(job.run_dir) == (0, "")


def test_success_leaves_what_the_ranks_wrote(job):
    write_exit(job.run_dir, 1, 0, "early stop")
    assert verdict(job, 0, Seen()) == 0
    assert read_exit(job.run_dir) == (0, "early stop")


@pytest.mark.parametrize("status", [2, 4, 5, 75])
def test_what_was_decided_stands_whoever_died_then(job, status, capsys):
    write_exit(job.run_dir, 0, status, "decided")
    agent_says(job, (1, -9))
    assert verdict(job, 1, Seen([signal.SIGTERM])) == status
    assert read_exit(job.run_dir) == (status, "decided")
    assert capsys.readouterr().err == ""


def test_the_dead_rank_is_named_before_its_echo(job, capsys):
    write_exit(job.run_dir, 0, 3, "connection closed by peer")
    agent_says(job, (0, 3), (1, -11))
    assert verdict(job, 1, Seen()) == 3
    assert read_exit(job.run_dir) == (139, "rank 1 was killed by SIGSEGV")
    assert capsys.readouterr().err == "error: rank 1 was killed by SIGSEGV.\n"


def test_a_rank_that_told_its_reason_needs_no_second_line(job, capsys):
    write_exit(job.run_dir, 1, 3, "NaN in the data")
    agent_says(job, (1, 3))
    assert verdict(job, 1, Seen()) == 3
    assert read_exit(job.run_dir) == (3, "NaN in the data")
    assert capsys.readouterr().err == ""


def test_a_script_that_fails_without_a_word(job, capsys):
    write_exit(job.run_dir, 0, 0, "")
    agent_says(job, (1, 7))
    assert verdict(job, 1, Seen()) == 3
    assert read_exit(job.run_dir)[0] == 7
    assert capsys.readouterr().err.startswith("error: rank 1 exited with status 7;")


def test_an_agent_that_says_nothing(job, capsys):
    assert verdict(job, -9, Seen()) == 3
    assert "torch's launcher was killed by SIGKILL" in capsys.readouterr().err


def test_signals(job, capsys):
    agent_says(job, (0, -15), (1, -15))
    assert verdict(job, 1, Seen([signal.SIGTERM])) == 3
    assert capsys.readouterr().err.startswith("error: ended by SIGTERM; nothing says")
    assert read_exit(job.run_dir)[0] == 128 + 15


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_a_signal_before_the_first_step_has_lost_nothing(job, signals, capsys):
    agent_says(job, (0, -15), (1, -15))
    write_exit(job.run_dir, 1, 3, "lost another rank")
    assert verdict(job, 1, Seen(signals, stepped=False)) == 75
    assert read_exit(job.run_dir) == (75, f"{signals[0].name} before the first step; nothing was lost")
    assert capsys.readouterr().err == ""


def test_a_folder_that_is_gone_changes_no_verdict(job):
    gone = Job(command=("true",), run_id="r", run_dir=job.run_dir / "gone")
    assert verdict(gone, 0, Seen()) == 0
    assert verdict(gone, 9, Seen()) == 3
