"""A disk that refuses is one message, and a new folder is there whole or not at all."""

import errno
import os

import pytest

from hemostat.disk import new_folder, recording, refusal
from hemostat.errors import FieldError, RecordError


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, r"dir='x': cannot be written, the disk is full\. Free some space"),
        (errno.EFBIG, r"the file-size limit is reached\. Raise `ulimit -f`"),
        (errno.ENOTDIR, "a part of the path is a file"),
        (errno.EIO, r"Input/output error\. Check the path"),
    ],
)
def test_what_the_system_says_becomes_one_message(code, says):
    with pytest.raises(RecordError, match=says), recording("x", "dir"):
        raise OSError(code, os.strerror(code))


def test_a_disk_with_room_refuses_nothing_and_keeps_no_probe(tmp_path):
    assert refusal(tmp_path, 5_000_000) == refusal(tmp_path, 0) == "" and list(tmp_path.iterdir()) == []
    assert "No such file" in refusal(tmp_path / "none", 1)


def test_a_full_disk_and_one_with_too_little_room_say_why(disk_of):
    disk = disk_of("256k")
    assert refusal(disk, 10_000) == ""
    assert refusal(disk, 500_000) == "the disk is full. Free some space, or choose another folder."
    assert list(disk.iterdir()) == []


def test_an_error_leaves_nothing_and_an_empty_folder_is_taken(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "out", "dir") as beside:
        (beside / "half").write_text("x")
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out", "dir") as beside:
        (beside / "a").write_text("x")
        assert list((tmp_path / "out").iterdir()) == []
    assert [path.name for path in tmp_path.glob("*/*")] == ["a"]
    with pytest.raises(FieldError, match=r"dir='.*out': is there already and not empty"):
        new_folder(tmp_path / "out", "dir").__enter__()


def test_a_full_disk_in_the_block_names_the_folder(tmp_path):
    with (
        pytest.raises(RecordError, match=r"out='.*new': cannot be written, the disk is full"),
        new_folder(tmp_path / "new", "out"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []
