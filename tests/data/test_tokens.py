"""Token files: windows and targets, opened at once, and every kind of wrong file named."""

import os
import pickle

import numpy as np
import pytest
import torch

from hemostat.data import EvalLoader, Source, TokenFile, Workers
from hemostat.errors import FieldError, HemostatWarning, TaskError


@pytest.fixture
def path(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "t.bin")
    return tmp_path / "t.bin"


def test_windows_and_their_targets(path):
    data = TokenFile(path, window=8)
    assert (data.num_tokens, len(data)) == (100, 12)
    inputs, targets = data[11]
    assert inputs.tolist() == list(range(88, 96))
    assert targets.tolist() == list(range(89, 97))
    many = Source(data).fetch(torch.tensor([3, 0]))
    assert [part.dtype for part in many] == [torch.int64] * 2
    assert many[0][:, 0].tolist() == [24, 0]
    assert torch.equal(many[1][:, :-1], many[0][:, 1:])


@pytest.mark.parametrize("num_tokens", [9, 16, 17, 18])
def test_every_window_that_has_a_target_is_there(path, num_tokens):
    np.arange(num_tokens, dtype=np.uint16).tofile(path)
    data = TokenFile(path, window=8)
    assert len(data) == (num_tokens - 1) // 8
    assert data[len(data) - 1][1][-1] == len(data) * 8


def test_wide_tokens_and_npy(tmp_path):
    wide = np.array([7, 1 << 30, 3], dtype=np.uint32)
    wide.tofile(tmp_path / "w.bin")
    np.save(tmp_path / "w.npy", wide)
    for data in (TokenFile(tmp_path / "w.bin", 2, dtype="uint32"), TokenFile(tmp_path / "w.npy", 2)):
        assert data[0][0].tolist() == [7, 1 << 30]


def test_it_travels_by_its_path(path):
    data = TokenFile(path, window=8)
    frozen = pickle.dumps(data)
    assert len(frozen) < 500
    assert pickle.loads(frozen)[2][0].tolist() == data[2][0].tolist()


def test_processes_read_it(path):
    batches = EvalLoader(TokenFile(path, 8), micro_batch=5, workers=Workers(mode="processes", num=2))
    assert [row for batch in batches for row in batch.data[0][:, 0].tolist()] == list(range(0, 96, 8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: TokenFile(f / "no.bin", 8), "no.bin: no such file"),
        (lambda f: TokenFile(f, 8), "is a folder: give the file"),
        (
            lambda f: TokenFile(f / "torn.npy", 8),
            r"torn.npy is missing or was cut short .* Write the tokens again",
        ),
        (lambda f: TokenFile(f / "odd.bin", 1), "odd.bin has 3 bytes, not a whole number of uint16"),
        (lambda f: TokenFile(f / "empty.bin", 1), "has 0 tokens: a sample needs 2"),
        (lambda f: TokenFile(f / "two.bin", 2), "has 2 tokens: a sample needs 3"),
        (lambda f: TokenFile(f / "square.npy", 2), r"square.npy holds float64 of shape \(2, 2\)"),
    ],
)
def test_a_wrong_file_is_named(make, message, tmp_path):
    (tmp_path / "odd.bin").write_bytes(b"abc")
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "two.bin").write_bytes(b"abcd")
    np.save(tmp_path / "square.npy", np.zeros((2, 2)))
    np.save(tmp_path / "torn.npy", np.arange(1000))
    os.truncate(tmp_path / "torn.npy", 1000)
    with pytest.raises(TaskError, match=message):
        make(tmp_path)


def test_wrong_settings(path):
    for window in (0, 1.5, "a", None):
        with pytest.raises(FieldError, match=f"window={window!r}: must be a whole number"):
            TokenFile(path, window)
    with pytest.raises(FieldError, match="dtype='int8'"):
        TokenFile(path, 8, dtype="int8")


def test_a_file_that_is_shortened_while_it_is_read_is_named(tmp_path):
    path = tmp_path / "t.bin"
    np.arange(40_000, dtype=np.uint16).tofile(path)
    data = TokenFile(path, window=8)
    os.truncate(path, 4096)
    with pytest.raises(
        TaskError, match=r"t.bin was shortened while it was read: it had 80,000 bytes and has 4,096"
    ):
        data[4000]  # without the check this ends the process


@pytest.mark.parametrize(("written", "read"), [("uint16", "uint32"), ("uint32", "uint16")])
def test_tokens_of_another_width_are_noticed(tmp_path, written, read):
    tokens = np.random.default_rng(0).integers(0, 50_000, 1000)
    tokens.astype(written).tofile(tmp_path / "t.bin")
    said = f"t.bin: .* probably written as {written}. Read it so: dtype='{written}'"
    with pytest.warns(HemostatWarning, match=said):
        TokenFile(tmp_path / "t.bin", 8, dtype=read)
    TokenFile(tmp_path / "t.bin", 8, dtype=written)


def test_rare_and_constant_tokens_are_no_reason_for_a_warning(tmp_path):
    for tokens in (np.zeros(1000, np.uint16), np.ones(1000, np.uint16), np.arange(1000, dtype=np.uint32)):
        tokens.tofile(tmp_path / "t.bin")
        TokenFile(tmp_path / "t.bin", 8, dtype=str(tokens.dtype))
