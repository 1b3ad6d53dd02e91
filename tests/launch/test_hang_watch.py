"""The launching process names and kills the rank that the others wait for; the dead are not its business."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from hemostat.launch.hang_watch import HangWatch, is_alive
from hemostat.track import RunRecord


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


def test_a_rank_that_is_dead_already_is_left_to_the_agent(tmp_path, capsys, sleeper):
    sleeper.kill()
    sleeper.wait()
    assert not is_alive(sleeper.pid)
    with HangWatch(tmp_path) as watch:
        for count in range(4):
            two_ranks(tmp_path, sleeper.pid, count)
            time.sleep(0.4)
    assert watch.found is None and capsys.readouterr().err == ""
