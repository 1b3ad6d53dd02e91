"""The leash: arranges the streams of a rank, runs the command, dies with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hemostat.launch

LEASH = str(Path(hemostat.launch.__file__).parent / "leash.py")
WORDS = [sys.executable, "-I", "-S", LEASH]


def environment(parent):
    return {**os.environ, "HEMOSTAT_PARENT_PID": str(parent)}


def test_the_command_runs_in_its_place():
    code = "import os, sys; print(os.environ['HEMOSTAT_PARENT_PID'] == str(os.getpid()), sys.argv[1:])"
    words = [*WORDS, "alone", sys.executable, "-c", code, "--", "-x", "a b"]
    done = subprocess.run(words, env=environment(os.getpid()), capture_output=True, text=True, check=True)
    assert done.stdout == "True ['--', '-x', 'a b']\n"


def test_a_rank_writes_its_errors_to_what_came_as_stdin(tmp_path):
    code = "import sys; print('to the user', file=sys.stderr); print(repr(sys.stdin.read()))"
    with (tmp_path / "user").open("wb") as user:
        words = [*WORDS, "rank", sys.executable, "-c", code]
        done = subprocess.run(
            words, env=environment(os.getpid()), stdin=user, capture_output=True, check=True
        )
    assert (tmp_path / "user").read_text() == "to the user\n"
    assert (done.stdout, done.stderr) == (b"''\n", b"")


def test_a_command_that_does_not_exist():
    words = [*WORDS, "alone", "no-such-program"]
    done = subprocess.run(words, env=environment(os.getpid()), capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert done.stderr.startswith(
        "error: command='no-such-program': cannot be run, No such file or directory."
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the leash is a Linux call")
def test_a_parent_that_died_before_the_leash_was_tied():
    words = [*WORDS, "alone", sys.executable, "-c", "print('ran')"]
    done = subprocess.run(words, env=environment(1), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_it_costs_little():
    def wall_s(words):
        start = time.perf_counter()
        subprocess.run(words, env=environment(os.getpid()), check=True)
        return time.perf_counter() - start

    plain = [sys.executable, "-I", "-S", "-c", "pass"]
    added_s = min(wall_s([*WORDS, "alone", *plain]) for _ in range(5)) - min(wall_s(plain) for _ in range(5))
    assert added_s < 0.2  # measured: 0.02 s
