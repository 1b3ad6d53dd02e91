"""A job apart dies with its starter, and prints into a file of its run directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from hemostat.launch import BACKENDS, Job
from hemostat.launch.apart import Apart
from hemostat.launch.hang_watch import is_alive

STARTER = """
import sys, time
from pathlib import Path
from hemostat.launch import Job, backend
code = "import os, pathlib, time; pathlib.Path('rank.pid').write_text(str(os.getpid())); time.sleep(60)"
backend("local").start(Job(command=(sys.executable, "-c", code), run_id="r", run_dir=Path("r")))
time.sleep(60)
"""


def until(holds) -> None:
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def job(tmp_path, *words: str, **change) -> Job:
    return Job(command=words, run_id="r", run_dir=tmp_path / "r", **change)


def test_kill_9_of_the_starter_leaves_nobody_behind(tmp_path):
    starter = subprocess.Popen([sys.executable, "-c", STARTER], cwd=tmp_path)
    pid_file = tmp_path / "rank.pid"
    until(lambda: pid_file.exists() and pid_file.read_text())
    rank = int(pid_file.read_text())
    assert is_alive(rank)
    starter.kill()
    starter.wait()
    until(lambda: not is_alive(rank))


def test_variables_reach_the_ranks_and_no_command_line(tmp_path):
    code = "import os; print(os.environ['EXTRA'])"
    apart = Apart(BACKENDS["local"], job(tmp_path, sys.executable, "-c", code, env={"EXTRA": "hunter2"}))
    until(lambda: apart.poll() is not None)
    assert apart.poll() == 0
    assert (tmp_path / "r" / "output.log").read_text() == "hunter2\n"
    assert "EXTRA" not in os.environ


def test_the_output_of_a_second_start_is_added(tmp_path):
    for _ in range(2):
        apart = Apart(BACKENDS["local"], job(tmp_path, "echo", "here"))
        until(lambda apart=apart: apart.poll() is not None)
    assert (tmp_path / "r" / "output.log").read_text() == "here\nhere\n"
