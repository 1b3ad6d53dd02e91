"""The cache of digests answers for unchanged files only, and never makes anything fail."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from hemostat.track.digests import DigestCache


@pytest.fixture
def settled(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc")
    os.utime(path, (1e9, 1e9))
    return path


def test_a_digest_is_kept_over_processes(settled, tmp_path):
    with DigestCache(tmp_path / "c.sqlite") as cache:
        cache.put(settled, "full", settled.stat(), b"digest")
        assert cache.get(settled, "full", settled.stat()) == b"digest"
    with DigestCache(tmp_path / "c.sqlite") as cache:
        assert cache.get(settled, "full", settled.stat()) == b"digest"
        assert cache.get(settled, "sample", settled.stat()) is None


@pytest.mark.parametrize("change", ["size", "time", "inode"])
def test_a_changed_file_is_not_known(settled, tmp_path, change):
    with DigestCache(tmp_path / "c.sqlite") as cache:
        cache.put(settled, "full", settled.stat(), b"digest")
    if change == "inode":
        other = tmp_path / "other"
        other.write_bytes(b"abd")
        other.replace(settled)
    else:
        settled.write_bytes(b"abcd" if change == "size" else b"abd")
    if change != "time":
        os.utime(settled, (1e9, 1e9))
    with DigestCache(tmp_path / "c.sqlite") as cache:
        assert cache.get(settled, "full", settled.stat()) is None


def test_a_file_that_was_just_written_is_not_kept(tmp_path):
    path = tmp_path / "new.bin"
    path.write_bytes(b"abc")
    with DigestCache(None) as cache:
        cache.put(path, "full", path.stat(), b"digest")
        assert cache.get(path, "full", path.stat()) is None


@pytest.mark.parametrize("garbage", [b"not a database at all" * 100, b"SQLite format 3\0" + bytes(200)])
def test_a_garbled_cache_is_built_again(settled, tmp_path, garbage):
    file = tmp_path / "c.sqlite"
    file.write_bytes(garbage)
    for known in (None, b"digest"):
        with DigestCache(file) as cache:
            assert cache.get(settled, "full", settled.stat()) == known
            cache.put(settled, "full", settled.stat(), b"digest")


def test_a_torn_cache_is_built_again(settled, tmp_path):
    file = tmp_path / "c.sqlite"
    with DigestCache(file) as cache:
        for level in map(str, range(3000)):
            cache.put(settled, level, settled.stat(), b"digest" * 5)
    with file.open("r+b") as torn:
        torn.truncate(file.stat().st_size // 2)
    with DigestCache(file) as cache:
        assert [cache.get(settled, level, settled.stat()) for level in ("0", "2999")].count(None) >= 1
        cache.put(settled, "full", settled.stat(), b"again")
    with DigestCache(file) as cache:
        assert cache.get(settled, "full", settled.stat()) in (b"again", None)
        cache.put(settled, "full", settled.stat(), b"again")
        assert cache.get(settled, "full", settled.stat()) == b"again"


def test_it_is_done_without_where_it_cannot_be_written(settled, tmp_path):
    (tmp_path / "file").write_text("")
    with DigestCache(tmp_path / "file" / "c.sqlite") as cache:
        cache.put(settled, "full", settled.stat(), b"digest")
        assert cache.get(settled, "full", settled.stat()) == b"digest"


def test_two_processes_write_at_once(settled, tmp_path):
    code = """
import sys
from pathlib import Path
from hemostat.track.digests import DigestCache
file, cache_file, who = map(Path, sys.argv[1:])
with DigestCache(cache_file) as cache:
    for number in range(2000):
        cache.put(file, f"{who}-{number}", file.stat(), b"digest")
"""
    args = [str(settled), str(tmp_path / "c.sqlite")]
    writers = [subprocess.Popen([sys.executable, "-c", code, *args, who]) for who in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    began = time.perf_counter()
    with DigestCache(tmp_path / "c.sqlite") as cache:
        known = [cache.get(settled, f"{who}-{n}", settled.stat()) for who in "ab" for n in range(2000)]
    assert known.count(b"digest") == 4000
    assert time.perf_counter() - began < 5
