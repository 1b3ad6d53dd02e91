"""The run directory: ids, creation by many at once, changes to run.json."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from hemostat.errors import FieldError, RecordError
from hemostat.track import create_run, new_run_id, update_run
from hemostat.track.files import read_json


def test_ids_are_short_sortable_and_different():
    ids = [new_run_id() for _ in range(500)]
    assert len(set(ids)) == 500
    assert all(re.fullmatch(r"\d{8}-\d{4}-[a-z2-9]{5}", run_id) for run_id in ids)
    assert ids[0][:13] <= ids[-1][:13]


def test_first_header_wins_and_ranks_may_come_first(tmp_path):
    """T081."""
    path = create_run(tmp_path / "deep" / "runs", "r1", {})
    assert not (path / "run.json").exists()
    assert create_run(tmp_path / "deep" / "runs", "r1", {"seed": 1}) == path
    create_run(tmp_path / "deep" / "runs", "r1", {"seed": 2})
    header = read_json(path / "run.json")
    assert (header["seed"], header["id"], header["format"]) == (1, "r1", 1)


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".hidden", "x" * 81, "a b"])
def test_unsafe_ids_are_refused(tmp_path, run_id):
    with pytest.raises(FieldError, match="run_id="):
        create_run(tmp_path, run_id, {})


def test_a_secret_in_the_command_is_masked(tmp_path):
    path = create_run(tmp_path, "r", {"command": ["train", "--api-key", "abc"]})
    update_run(path, again=1)
    assert "abc" not in (path / "run.json").read_text()
    update_run(path, command="train --token=abc")
    assert read_json(path / "run.json")["command"] == "train --token=***"


def test_update_keeps_the_rest_and_none_removes(tmp_path):
    path = create_run(tmp_path, "r", {"a": 1, "b": 2})
    update_run(path, b=None, c=float("nan"))
    header = read_json(path / "run.json")
    assert (header["a"], "b" in header, header["c"]) == (1, False, "nan")


def test_update_of_a_run_without_header(tmp_path):
    path = create_run(tmp_path, "r", {})
    update_run(path, a=1)
    assert read_json(path / "run.json")["id"] == "r"


def test_update_does_not_bury_a_garbled_header(tmp_path):
    path = create_run(tmp_path, "r", {"a": 1})
    (path / "run.json").write_text("{")
    with pytest.raises(RecordError, match="not valid JSON"):
        update_run(path, b=1)


def test_eight_processes_update_at_once_and_none_is_lost(tmp_path):
    """T083."""
    path = create_run(tmp_path, "r", {"a": 1})
    code = (
        "import sys; from pathlib import Path; from hemostat.track import update_run\n"
        "for i in range(5): update_run(Path(sys.argv[1]), **{f'k{sys.argv[2]}_{i}': i})\n"
    )
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(8)]
    assert [job.wait() for job in jobs] == [0] * 8
    header = read_json(path / "run.json")
    assert sum(key.startswith("k") for key in header) == 40


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(RecordError, match=r"runs/r.*is a file, not a folder"):
        create_run(tmp_path / "runs", "r", {"a": 1})


def test_read_only_folder():
    # /proc is read-only for everybody, root included
    with pytest.raises(RecordError, match="cannot be written"):
        create_run("/proc/hemostat-runs", "r", {"a": 1})
