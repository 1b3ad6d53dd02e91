"""Before and after: few changed lines, the same losses, and the same again in two processes."""

from __future__ import annotations

import difflib
import importlib
import re
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, Sampler

from hemostat.data import Order

PAIRS = {  # name: (lines that may change, package that the scripts need besides torch)
    "plain": (10, "sklearn"),
    "accelerate": (5, "accelerate"),
    "hugging_face": (5, "transformers"),
}


def changed_lines(before: str, after: str) -> int:
    """A replaced line counts once, so does an added and a removed one; blank lines do not count.

    Where a run of lines gives way to another run, the longer of the two counts.
    """
    old, new = ([line for line in text.splitlines() if line.strip()] for text in (before, after))
    blocks = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return sum(
        max(old_end - old_start, new_end - new_start)
        for kind, old_start, old_end, new_start, new_end in blocks
        if kind != "equal"
    )


class SessionOrder(Sampler[int]):
    """hemostat's order at seed 0, so that both scripts see the same batches."""

    def __init__(self, num_samples: int) -> None:
        self._order = Order(num_samples, seed=0)
        self._epoch = -1

    def __len__(self) -> int:
        return self._order.num_samples

    def __iter__(self):
        self._epoch += 1
        return iter(self._order.indices(self._epoch, 0, len(self)).tolist())


def in_session_order(data, **given) -> DataLoader:
    return DataLoader(data, batch_size=given["batch_size"], sampler=SessionOrder(len(data)))


@pytest.fixture
def script(examples, tmp_path, monkeypatch):
    """Import one script of the folder, as Python does that runs it there."""
    monkeypatch.syspath_prepend(examples / "own_loop")
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield importlib.import_module
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", PAIRS)
def test_few_lines_change(name, examples):
    before, after = (
        (examples / "own_loop" / f"{name}_{side}.py").read_text() for side in ("before", "after")
    )
    assert 0 < changed_lines(before, after) <= PAIRS[name][0]
    assert "hemostat" not in before


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nc", "a\nx\nc", 1),
        ("a\nb\nc", "a\nc", 1),
        ("a\nc", "a\n\nb\nc", 1),
        ("a\nb\nc\nd", "a\nx\nd", 2),
        ("a\n  b", "a\n    b", 1),
    ],
)
def test_the_rule_of_counting(before, after, expected):
    assert changed_lines(before, after) == expected


@pytest.mark.parametrize("name", PAIRS)
def test_the_losses_are_equal_in_the_same_order(name, script, monkeypatch):
    pytest.importorskip(PAIRS[name][1], reason=f"{PAIRS[name][1]} is in the extra `bench`")
    before, after = script(f"{name}_before"), script(f"{name}_after")
    own_order = before.train()
    monkeypatch.setattr(before, "DataLoader", in_session_order)
    same_order = before.train()
    assert after.train() == pytest.approx(same_order, rel=1e-5)
    assert own_order != pytest.approx(same_order, rel=1e-3)  # else the order would not matter here


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_end_where_one_does(name, examples, tmp_path):
    pytest.importorskip(PAIRS[name][1], reason=f"{PAIRS[name][1]} is in the extra `bench`")
    path = str(examples / "own_loop" / f"{name}_after.py")
    one = losses([sys.executable, path], tmp_path)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    two = losses([sys.executable, *launcher, path], tmp_path)
    assert len(one) == 1
    assert two == pytest.approx(one * 2, rel=1e-5)


def losses(command: list[str], folder) -> list[float]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [float(text) for text in re.findall(r"loss after 3 epochs: ([\d.]+)", done.stdout)]
