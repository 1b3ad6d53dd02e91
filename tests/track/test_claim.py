"""A run belongs to one process at a time, and to nobody once that has ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hemostat.errors import RecordError
from hemostat.track import RunRecord

HOLD = """
import sys
from pathlib import Path
from hemostat.track import RunRecord
lock = RunRecord(Path(sys.argv[1])).claim()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RecordError, match="another process is running this run"):
            RunRecord(tmp_path).claim()
        other.kill()
    RunRecord(tmp_path).claim().close()


def test_a_lock_that_is_given_back_can_be_taken(tmp_path):
    lock = RunRecord(tmp_path).claim()
    with pytest.raises(RecordError, match="another process"):
        RunRecord(tmp_path).claim()
    lock.close()
    RunRecord(tmp_path).claim().close()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(RecordError, match="cannot be written"):
        RunRecord(tmp_path / "none").claim()
