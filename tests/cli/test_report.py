"""`hemostat report`: the answer of a study, its page, and its best trials run again."""

from __future__ import annotations

import json
import re
import sys

import pytest

from hemostat.cli.main import run

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


def test_the_answer_is_text_and_values(here, capsys):
    status, out, _ = call(capsys)
    assert status == 0 and len(out.splitlines()) <= 12
    assert "lr=0.01" in out and "small: " in out
    status, out, _ = call(capsys, "small", "--json")
    values = json.loads(out)
    assert status == 0 and values["best"]["config"] == {"lr": 0.01}
    assert values["is_final"] and values["ending"]


def test_the_page_and_the_file_for_optuna(here, capsys, tmp_path):
    status, _, err = call(capsys, "small", "--plot", "--optuna", str(tmp_path / "o.sqlite"))
    assert status == 0
    page = re.search(r"wrote (\S+study.html)", err)
    assert page and "data:image/png" in (here / page[1]).read_text()
    assert (tmp_path / "o.sqlite").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["large"], "study='large': is no study. Name one of small."),
        (["small", "--confirm", "0"], "confirm=0: must be 1 or more"),
        (["small", "--max-hours", "2"], "max_hours='2': is for --confirm"),
        (["small", "--runs", "elsewhere/runs"], "there are no studies in elsewhere"),
    ],
)
def test_a_mistake_is_one_line_with_its_repair(here, capsys, words, told):
    status, _, err = call(capsys, *words)
    assert status == 2
    assert told in err and err.startswith("error: ") and err.count("\n") == 1
