"""Fingerprints change when the data changes, and only then."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError, RecordError, UnknownNameError
from hemostat.track import fingerprint
from hemostat.track.fingerprint import FULL_LIMIT_BYTES


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"abc")
    (folder / "sub" / "b.bin").write_bytes(os.urandom(100_000))
    return folder


def test_same_data_elsewhere_is_the_same(data, tmp_path):
    first = fingerprint(data)
    shutil.copytree(data, tmp_path / "copy")
    assert fingerprint(tmp_path / "copy") == first
    assert (first.tier, first.num_files, first.num_bytes) == ("full", 2, 100_003)


@pytest.mark.parametrize("change", ["byte", "rename", "remove", "add empty"])
def test_any_change_shows(data, change):
    before = fingerprint(data).digest
    target = data / "sub" / "b.bin"
    if change == "byte":
        content = bytearray(target.read_bytes())
        content[70_000] ^= 1
        target.write_bytes(content)
    elif change == "rename":
        target.rename(data / "sub" / "c.bin")
    elif change == "remove":
        target.unlink()
    else:
        (data / "empty").touch()
    assert fingerprint(data).digest != before


def test_order_of_paths_does_not_matter(data):
    paths = [data / "a.bin", data / "sub" / "b.bin"]
    assert fingerprint(paths) == fingerprint([str(path) for path in reversed(paths)])


def test_sample_tier_sees_size_and_pieces_only(tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(8 * 2**20))
    before = fingerprint(path, tier="sample")
    with path.open("r+b") as file:
        file.seek(64 * 1024 + 100)  # between the first and the second piece
        file.write(b"x")
    assert fingerprint(path, tier="sample") == before
    assert fingerprint(path, tier="full").digest != before.digest
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert fingerprint(path, tier="sample").digest != before.digest


def test_huge_files_are_sampled_by_default(tmp_path):
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(FULL_LIMIT_BYTES + 1)
    assert fingerprint(path).tier == "sample"


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.binary(max_size=20), max_size=5))
def test_parts_in_memory_are_told_apart(left, right):
    assert (fingerprint(left).digest == fingerprint(right).digest) is (left == right)


def test_arrays_and_generators_are_taken():
    import numpy

    array = numpy.arange(12, dtype=numpy.int64).reshape(3, 4)
    assert fingerprint([array]) == fingerprint(part for part in [array.tobytes()])
    assert fingerprint([array.T]).num_bytes == array.nbytes


def test_the_digest_is_fixed():
    """A golden value: records made by an older version must stay comparable."""
    memory = hashlib.sha256(hashlib.sha256(b"abc").digest()).digest()
    assert fingerprint(b"abc").digest == hashlib.sha256(b"hemostat-1:full:" + memory).hexdigest()


def test_bad_input(tmp_path):
    with pytest.raises(FieldError, match="no such file"):
        fingerprint(tmp_path / "none")
    with pytest.raises(FieldError, match="neither a path nor bytes"):
        fingerprint([1.5])
    with pytest.raises(UnknownNameError, match=r"tier='quick'.*full"):
        fingerprint(b"", tier="quick")
    assert fingerprint([]).num_files == 0


def settle(*paths):
    for path in paths:
        os.utime(path, (1e9, 1e9))


def test_stat_follows_times_and_full_follows_bytes(data):
    before = {tier: fingerprint(data, tier) for tier in ("stat", "sample", "full")}
    settle(data / "a.bin")
    after = {tier: fingerprint(data, tier) for tier in ("stat", "sample", "full")}
    assert after["full"] == before["full"] and after["sample"] == before["sample"]
    assert after["stat"].digest != before["stat"].digest
    assert len({found.digest for found in before.values()}) == 3
    assert after["stat"].changes(before["stat"].files) == ["shard a.bin differs"]


def test_an_unchanged_file_is_never_read_twice(data, tmp_path):
    """The second reading finds other bytes behind the same size, time and inode, and does not notice."""
    target, cache = data / "sub" / "b.bin", tmp_path / "c.sqlite"
    settle(data / "a.bin", target)
    before = fingerprint(data, cache=cache)
    with target.open("r+b") as file:
        file.write(b"other bytes")
    settle(target)
    assert fingerprint(data, cache=cache) == before
    assert fingerprint(data).changes(before.files) == ["shard sub/b.bin differs"]
    os.utime(target)
    assert fingerprint(data, cache=cache).changes(before.files) == ["shard sub/b.bin differs"]


def test_changes_are_named_and_their_number_is_bounded(data):
    before = fingerprint(data)
    (data / "a.bin").write_bytes(b"abcd")
    (data / "c.bin").touch()
    (data / "sub" / "b.bin").unlink()
    assert fingerprint(data).changes(before.files) == [
        "shard a.bin differs: 4 bytes, 3 before",
        "shard c.bin is new",
        "shard sub/b.bin is gone",
    ]
    for number in range(1000):
        (data / f"{number:04}.txt").touch()
    assert fingerprint(data).changes(before.files)[3:] == ["shard 0003.txt is new", "and 999 more shards"]


def test_files_of_one_name_are_all_kept(data):
    (data / "sub" / "a.bin").write_bytes(b"other")
    found = fingerprint([data / "a.bin", data / "sub" / "a.bin"])
    assert found.num_files == 2 and set(found.files) == {"a.bin", "a.bin (2)"}


def test_memory_can_have_names_and_be_made_late():
    asked = []

    def late():
        asked.append(1)
        return b"x" * 10

    assert fingerprint([("rows", late)], "stat").num_bytes == 0 and not asked
    assert fingerprint([("rows", late)], "full").files["rows"][0] == 10
    assert fingerprint([("a", b"x")]).digest != fingerprint([("b", b"x")]).digest


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = tmp_path / "growing.bin"
    path.write_bytes(bytes(5 * 2**20))

    def grow():
        with path.open("ab") as file:
            file.write(b"x")

    with pytest.raises(RecordError, match=r"growing.bin.*changes while it is read\. Wait"):
        fingerprint(path, "full", pause=grow)


@pytest.fixture
def locked_folder():
    """Holds a file that nobody may read; root, who may, becomes somebody else for a while."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "secret.bin").write_bytes(b"abc")
    (folder / "secret.bin").chmod(0)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(me)
    shutil.rmtree(folder)


def test_a_file_that_cannot_be_read_is_named(locked_folder):
    assert fingerprint(locked_folder, "stat").num_bytes == 3
    with pytest.raises(RecordError, match=r"secret.bin.*cannot be read, Permission denied"):
        fingerprint(locked_folder)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FieldError, match="is not a regular file"):
        fingerprint(tmp_path / "pipe")
    assert fingerprint(tmp_path).num_files == 0


def test_what_pause_raises_ends_the_work(data):
    with pytest.raises(TimeoutError):
        fingerprint(data, pause=lambda: (_ for _ in ()).throw(TimeoutError()))
