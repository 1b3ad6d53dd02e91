"""Small JSON files: whole or not at all, and clear words when the disk refuses."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

from hemostat.disk import recording
from hemostat.errors import RecordError
from hemostat.track.files import plain_json, read_json, write_all, write_json


def test_round_trip_and_no_leftover(tmp_path):
    path = tmp_path / "a.json"
    assert write_json(path, {"x": [1, 2.5, None, "é"], "bad": float("inf")})
    assert read_json(path) == {"x": [1, 2.5, None, "é"], "bad": "inf"}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_the_text_is_strict_json(tmp_path):
    write_json(tmp_path / "a.json", {"v": [float("nan"), float("-inf")]})

    def refuse(name):
        raise AssertionError(name)

    assert json.loads((tmp_path / "a.json").read_text(), parse_constant=refuse) == {"v": ["nan", "-inf"]}


def test_first_writer_wins(tmp_path):
    path = tmp_path / "a.json"
    assert write_json(path, {"by": 1}, keep_existing=True)
    assert not write_json(path, {"by": 2}, keep_existing=True)
    assert read_json(path) == {"by": 1}


def test_values_of_other_types_become_text(tmp_path):
    assert plain_json({"path": tmp_path}) == {"path": str(tmp_path)}


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff\xfe", '{"a": NaN}'])
def test_garbled_file_is_named(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(RecordError, match=r"a\.json"):
        read_json(path)


def test_absent_file_is_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")


def test_full_disk_is_named():
    # /dev/full refuses every byte as a full disk does
    with pytest.raises(RecordError, match=r"the disk is full\. Free some space"), recording("/dev/full"):
        descriptor = os.open("/dev/full", os.O_WRONLY)
        try:
            write_all(descriptor, b"x")
        finally:
            os.close(descriptor)


def test_limit_of_file_size_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": True})
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from hemostat.track.files import write_json; from hemostat.errors import RecordError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))\n"
        "try: write_json(Path(sys.argv[1]), {'new': 'x' * 5000})\n"
        "except RecordError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "the file-size limit is reached" in done.stdout
    assert read_json(path) == {"old": True}
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_part_of_the_path_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="is a file, not a folder"):
        write_json(tmp_path / "file" / "a.json", {})
