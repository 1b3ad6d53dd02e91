"""The best trials of a study run again: with other seeds, under a cap of their own, and after an interruption."""

from __future__ import annotations

import sys

import pytest

from hemostat.cli.main import run
from hemostat.tune.journal import read_journal
from hemostat.tune.state import State

SCRIPT = """
import math, random, sys
lr, seed = float(sys.argv[1]), int(sys.argv[2])
for epoch in (1, 2, 3):
    noise = random.Random(seed * 10 + epoch).gauss(0, 0.01)
    print(f"epoch {epoch} val_loss={(math.log10(lr) + 2) ** 2 + 1 / epoch + noise:.4f}", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one study that a real script has been run for."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "space.toml").write_text("lr = [1e-4, 1e-3, 1e-2, 1e-1]")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = "tune --space space.toml --max-hours 60s --set tune.length=3 --set tune.name=small -- "
        assert run([*words.split(), sys.executable, "train.py", "{lr}", "{seed}"]) == 0
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def call(capsys, *words: str) -> tuple[int, str, str]:
    status = run(["report", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_repeats_tell_how_sure_the_winner_is_and_are_runs_of_their_own(here, capsys):
    status, out, err = call(capsys, "small", "--confirm", "2")
    assert status == 0, err
    assert "confirm  " in err and "the repeats ended" in err
    assert "% that none of the others is better" in out
    runs = sorted(path.name for path in (here / ".hemostat/runs").glob("small-confirm-1-t*"))
    assert len(runs) >= 2
    status, again, _ = call(capsys, "small")
    assert again == out


def test_a_second_confirmation_adds_seeds_to_the_first(here, capsys):
    before = len(list((here / ".hemostat/studies/small").glob("confirm-*.jsonl")))
    status, _, err = call(capsys, "small", "--confirm", "1", "--max-hours", "40s")
    assert status == 0 and "at most 40" in err
    after = sorted(path.name for path in (here / ".hemostat/studies/small").glob("confirm-*.jsonl"))
    assert len(after) == before + 1


def test_a_confirmation_that_was_interrupted_goes_on_instead_of_a_new_one(here, capsys):
    studies = here / ".hemostat/studies/small"
    last = sorted(studies.glob("confirm-*.jsonl"))[-1]
    whole = last.read_text().splitlines(keepends=True)
    last.write_text("".join(whole[:4]))  # as a kill would leave it: one run on its way, no end
    orders = State.of(read_journal(last)).running
    assert orders
    before = sorted(path.name for path in studies.glob("confirm-*.jsonl"))
    status, out, err = call(capsys, "small", "--confirm", "9")
    assert status == 0, err
    assert "confirm  " not in err  # its own settings stand
    assert sorted(path.name for path in studies.glob("confirm-*.jsonl")) == before
    again = State.of(read_journal(last))
    assert again.ending is not None and len(again.history.trials) <= 6
    assert "% that none of the others is better" in out


def test_a_command_without_a_seed_cannot_be_confirmed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import sys; print(f'val_loss={float(sys.argv[1])} step=1')")
    (tmp_path / "space.toml").write_text("lr = [0.1, 0.2]")
    words = ["tune", "--space", "space.toml", "--max-hours", "30s", "--set", "tune.name=bare", "--"]
    assert run([*words, sys.executable, "train.py", "{lr}"]) == 0
    capsys.readouterr()
    status, _, err = call(capsys, "bare", "--confirm", "2")
    assert status == 2 and "confirm=2: needs a command that takes {seed}" in err
