"""What stops a job before its first rank stands in its record."""

from __future__ import annotations

import sys

import msgspec

from hemostat.launch import Job
from hemostat.launch.keeper import keep
from hemostat.track import RunRecord


def job(tmp_path, *words: str) -> Job:
    return Job(command=words, run_id="r", run_dir=tmp_path / "r", env={"EXTRA": "1"})


def test_a_job_comes_through_as_it_was(tmp_path):
    code = "import os, sys; sys.exit(os.environ['EXTRA'] != '1')"
    assert keep("local", msgspec.json.encode(job(tmp_path, sys.executable, "-c", code), enc_hook=str)) == 0


def test_a_refusal_stands_in_the_record(tmp_path, capsys):
    wanted = job(tmp_path, "true")
    wanted.run_dir.mkdir()
    with RunRecord(wanted.run_dir).claim():
        assert keep("local", msgspec.json.encode(wanted, enc_hook=str)) == 3
    assert "another process is running this run" in capsys.readouterr().err
    assert "another process is running this run" in RunRecord(wanted.run_dir).exit[1]
