"""What the pictures of a study show; the figures are read back from matplotlib's own objects."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from hemostat.report import study_pictures
from hemostat.tune import History, Importance, Space
from hemostat.tune.space import Choice, Real
from hemostat.tune.trial import Point, Trial

SPACE = Space((Real("lr", 1e-4, 1e-2), Choice("act", ("relu", "gelu"))))


def trial(number: int, value: float, at: int) -> Trial:
    return Trial(
        number=number,
        config={"lr": 1e-3, "act": "gelu"},
        origin="random",
        points=(Point(at=at, value=value, time_s=1.0),),
        outcome="finished",
        time_s=3600.0,
    )


HISTORY = History(
    trials=(trial(0, 3.0, 9), trial(1, 1.0, 3), trial(2, 2.0, 9), trial(3, 2.5, 9)), sign=1, rungs=(3, 9)
)


@pytest.fixture
def drawn(monkeypatch):
    figures = []
    real = study_pictures.picture

    @contextlib.contextmanager
    def kept(path, purpose, size_inches):
        with real(path, purpose, size_inches) as figure:
            yield figure
            figures.append(figure)

    monkeypatch.setattr(study_pictures, "picture", kept)
    return figures


def test_the_best_so_far_counts_whole_runs_only(drawn, tmp_path: Path) -> None:
    assert study_pictures.draw_history(HISTORY, "loss", tmp_path / "h.png") == tmp_path / "h.png"
    step = drawn[0].axes[0].lines[-1]
    assert list(step.get_xdata()) == [1.0, 3.0, 4.0]
    assert list(step.get_ydata()) == [3.0, 2.0, 2.0]


def test_a_line_for_each_judged_trial_the_best_one_on_top(drawn, tmp_path: Path) -> None:
    study_pictures.draw_parallel(SPACE, HISTORY, tmp_path / "p.png")
    lines = [
        line for line in drawn[0].axes[0].lines if len(line.get_xdata()) == 2 and line.get_color() != "grey"
    ]
    assert len(lines) == 4
    assert lines[-1].get_linewidth() == max(line.get_linewidth() for line in lines)
    assert list(lines[0].get_ydata()) == pytest.approx([0.5, 0.75])


def test_bars_of_what_chance_explains_are_grey(drawn, tmp_path: Path) -> None:
    table = [Importance(name="lr", share=0.9, p_value=0.01), Importance(name="act", share=0.1, p_value=0.4)]
    study_pictures.draw_importance(table, tmp_path / "i.png")
    bars = drawn[0].axes[0].patches
    assert [bar.get_width() for bar in bars] == [0.1, 0.9]
    assert bars[0].get_facecolor() != bars[1].get_facecolor()


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    empty = History(trials=(), sign=1, rungs=(9,))
    assert study_pictures.draw_history(empty, "loss", tmp_path / "h.png") is None
    assert study_pictures.draw_parallel(SPACE, empty, tmp_path / "p.png") is None
