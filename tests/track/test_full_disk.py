"""A disk that is really full, and one that is really read-only: a small tmpfs, where the test may mount one."""

from __future__ import annotations

import subprocess

import pytest

from hemostat.errors import EnvironmentFailure, RecordError
from hemostat.launch import Job, backend
from hemostat.track import Recorder, create_run, list_runs, load_run, update_run, write_exit


def test_full_then_read_only(disk_of):
    small_disk = disk_of("64k")
    root = small_disk / "runs"
    path = create_run(root, "r", {"seed": 1})
    recorder = Recorder(path, 0)
    logged = 0
    with pytest.raises(RecordError, match="the disk is full"):
        while logged < 100_000:
            recorder.log(logged, logged, {"loss": 1.0})
            logged += 1
    for write in (
        lambda: update_run(path, summary={"best": 1.0}),
        lambda: write_exit(path, 0, 3, "disk full"),
        lambda: create_run(root, "r2", {"seed": 1}),
    ):
        with pytest.raises(RecordError, match=r"the disk is full\. Free some space"):
            write()
    recorder.close()
    assert len(load_run(root, "r").metrics("loss")) == logged
    assert load_run(root, "r").header["seed"] == 1
    assert "r" in [run.id for run in list_runs(root)]
    assert not list(path.glob(".*.tmp"))

    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for write in (
        lambda: create_run(root, "r3", {"seed": 1}),
        lambda: Recorder(path, 0),
        lambda: update_run(path, a=1),
    ):
        with pytest.raises(RecordError, match=r"read-only\. Choose a folder that can be written"):
            write()
    with pytest.raises(EnvironmentFailure, match="cannot be written, Read-only file system"):
        backend("local").run(Job(command=("true",), run_id="r", run_dir=path))
    assert len(load_run(root, "r").metrics("loss")) == logged
