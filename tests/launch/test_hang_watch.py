"""The launching process names and kills the rank that the others wait for; the dead are not its business."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from hemostat.launch import hang_watch
from hemostat.launch.hang_watch import HangWatch, is_alive
from hemostat.track import RunRecord, write_exit


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def two_ranks(tmp_path, pid: int, count: int) -> None:
    record = RunRecord(tmp_path)
    record.beat(0, phase="reduce", phase_s=count, stall_s=1, count=count)
    record.beat(1, phase="forward", phase_s=count, stall_s=1, count=count, pid=pid, stack="  here")


def test_the_rank_is_named_once_and_killed(tmp_path, capsys, sleeper):
    two_ranks(tmp_path, sleeper.pid, 99)  # of an earlier launch: forgotten
    with HangWatch(tmp_path) as watch:
        for count in range(6):
            two_ranks(tmp_path, sleeper.pid, count)
            time.sleep(0.4)
        assert sleeper.wait(5) == -9
    assert watch.found[0] == 1 and "rank 1 hangs in forward" in watch.found[1]
    assert capsys.readouterr().err.count("error: rank 1 hangs in forward after step 0") == 1
    assert not list(tmp_path.glob("beat.*"))


def test_a_rank_of_another_machine_is_named_and_its_number_is_not_killed_here(tmp_path, capsys, sleeper):
    """On a file system that machines share, its beat may hold the number of a process of ours."""
    record = RunRecord(tmp_path)
    with HangWatch(tmp_path) as watch:
        for count in range(6):
            record.beat(0, phase="reduce", phase_s=count, stall_s=1, count=count)
            away = {"pid": sleeper.pid, "host": "node7 0b5c"}
            record.beat(1, phase="forward", phase_s=count, stall_s=1, count=count, **away)
            time.sleep(0.4)
        assert sleeper.poll() is None
    assert watch.found is None
    said = capsys.readouterr().err
    assert said.count("error: rank 1 hangs in forward") == 1 and "it runs on node7; end it there" in said


def test_a_rank_alone_is_named_once_a_phase_and_lives(tmp_path, capsys, sleeper):
    record = RunRecord(tmp_path)
    with HangWatch(tmp_path) as watch:
        for count in range(6):
            record.beat(
                0,
                phase="data",
                phase_s=count,
                stall_s=1,
                count=count,
                pid=sleeper.pid,
                num_ranks=1,
                step=count,
            )
            time.sleep(0.4)
        assert sleeper.poll() is None
    assert watch.found is None
    assert capsys.readouterr().err.count("note: rank 0 has stood in data after step") == 1


def test_a_job_that_goes_on_behind_its_cap_is_ended_with_5(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hang_watch, "CAP_GRACE_S", 1.0)
    ended = []
    RunRecord(tmp_path).set_deadline(0.0, "max_hours=1h00m")  # of an earlier launch: forgotten
    with HangWatch(tmp_path, lambda: ended.append(time.monotonic())):
        time.sleep(1.2)
        assert not ended
        at_s = time.monotonic() + 0.5
        RunRecord(tmp_path).set_deadline(at_s, "max_hours=4h00m")
        deadline_s = time.monotonic() + 10
        while not ended and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert at_s + 1.0 < ended[0] < at_s + 3.0
    status, why = RunRecord(tmp_path).exit
    assert status == 5
    assert why.startswith("max_hours=4h00m is reached and the run goes on without a vote, so it was killed")
    assert "there is no checkpoint yet" in why and f"--resume {tmp_path.name}" in why
    assert capsys.readouterr().err == f"error: {why}\n"
    assert RunRecord(tmp_path).deadline() is None


def test_what_the_ranks_said_of_their_cap_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(hang_watch, "CAP_GRACE_S", 0.0)
    write_exit(tmp_path, 1, 5, "max_usd=$1.00 is reached in data")
    ended = []
    with HangWatch(tmp_path, lambda: ended.append(1)):
        RunRecord(tmp_path).set_deadline(time.monotonic(), "max_usd=$1.00")
        deadline_s = time.monotonic() + 10
        while not ended and time.monotonic() < deadline_s:
            time.sleep(0.05)
    assert RunRecord(tmp_path).exit == (5, "max_usd=$1.00 is reached in data")


def test_a_rank_that_is_dead_already_is_left_to_the_agent(tmp_path, capsys, sleeper):
    sleeper.kill()
    sleeper.wait()
    assert not is_alive(sleeper.pid)
    with HangWatch(tmp_path) as watch:
        for count in range(4):
            two_ranks(tmp_path, sleeper.pid, count)
            time.sleep(0.4)
    assert watch.found is None and capsys.readouterr().err == ""
