"""Fingerprints change when the data changes, and only then."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
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
    with pytest.raises(FieldError, match="tier='quick'"):
        fingerprint(b"", tier="quick")
    assert fingerprint([]).num_files == 0
