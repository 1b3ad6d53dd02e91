"""Mapped files: their content as plain arrays, and each way in which a file can be torn is named."""

import os
import time

import numpy as np
import pytest

from hemostat.data.mapped import MappedFile
from hemostat.errors import TaskError


def test_plain_files_and_npy(tmp_path):
    wanted = np.arange(100, dtype=np.uint16)
    wanted.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "a.npy", wanted)
    for mapped in (MappedFile(tmp_path / "a.bin", "uint16"), MappedFile(tmp_path / "a.npy")):
        assert type(mapped.array) is np.ndarray
        assert mapped.array.tolist() == wanted.tolist()
        mapped.check()


def test_an_empty_file_is_an_empty_array(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"")
    mapped = MappedFile(tmp_path / "a.bin", "uint16")
    mapped.check()
    assert mapped.array.size == 0


def test_what_cannot_be_mapped_is_named_with_the_repair(tmp_path):
    np.save(tmp_path / "torn.npy", np.arange(1000))
    os.truncate(tmp_path / "torn.npy", 500)
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("torn.npy", "empty.npy", "absent.npy"):
        with pytest.raises(TaskError, match=rf"{name} is missing or was cut short .*\. Bring it back\."):
            MappedFile(tmp_path / name, fix="Bring it back.")


def test_a_shorter_file_is_refused_and_a_longer_one_is_not(tmp_path):
    path = tmp_path / "a.bin"
    np.zeros(5000, np.uint16).tofile(path)
    mapped = MappedFile(path, "uint16")
    with path.open("ab") as file:
        file.write(b"12")
    mapped.check()
    os.truncate(path, 100)
    with pytest.raises(TaskError, match="it had 10,000 bytes and has 100 now"):
        mapped.check()


def test_the_check_costs_little(tmp_path):
    np.zeros(5000, np.uint16).tofile(tmp_path / "a.bin")
    mapped = MappedFile(tmp_path / "a.bin", "uint16")
    spent_s = []
    for _ in range(7):
        began = time.perf_counter()
        for _ in range(100):
            mapped.check()
        spent_s.append((time.perf_counter() - began) / 100)
    assert min(spent_s) < 20e-6  # a batch of tokens takes about that long
