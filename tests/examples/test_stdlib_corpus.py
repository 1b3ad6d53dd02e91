"""The corpus is split by file without leaks, and its windows count every byte once."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def corpus(example):
    return example("stdlib_corpus")


def test_no_file_stands_in_both_parts(corpus):
    train, held_out = corpus.load_corpus()
    assert not {file.path for file in train} & {file.path for file in held_out}
    assert not {file.content for file in train} & {file.content for file in held_out}
    assert len(held_out) >= 5
    assert 0.005 < sum(len(f.content) for f in held_out) / sum(len(f.content) for f in train) < 0.1


def test_tests_installed_packages_and_copies_are_left_out(corpus, tmp_path):
    for name in ("a.py", "b.py", "test/c.py", "site-packages/d.py", "lib/tests/e.py", "lib/f.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n" if name in ("a.py", "b.py") else name)
    (tmp_path / "empty.py").touch()
    (tmp_path / "binary.py").write_bytes(b"\x00")
    assert [file.path for file in corpus.read_files(tmp_path)] == ["a.py", "lib/f.py"]


@pytest.mark.parametrize("num_bytes", [1, 7, 8, 9])
def test_windows_count_every_byte_once(corpus, num_bytes):
    text = bytes(range(1, num_bytes + 1))
    stream = corpus.join([corpus.SourceFile("a.py", text)])
    windows = corpus.ByteWindows(stream, window=4)
    inputs, targets = windows.__getitems__(range(len(windows)))
    real = targets != corpus.IGNORE
    assert bytes(targets[real].tolist()) == text + b"\x00"
    assert bytes(inputs[real].tolist()) == b"\x00" + text
    assert all((windows[k][1] == targets[k]).all() for k in range(len(windows)))


def test_all_held_out_bytes_are_judged(corpus):
    held_out = corpus.load_corpus().held_out
    windows = corpus.ByteWindows(corpus.join(held_out), window=256)
    targets = windows.__getitems__(range(len(windows)))[1]
    num_bytes = ((targets != corpus.IGNORE) & (targets != corpus.SEPARATOR)).sum()
    assert num_bytes == sum(len(file.content) for file in held_out)
