"""What is said while a study runs: each end once, each new best, and a table where somebody looks."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from hemostat.report.tune_live import LiveStudy, config_text, leader, rung_rows, status_line
from hemostat.tune import Budget, Journal, Settings, Space, Study, drive, parameter, pruners, samplers
from hemostat.tune.replay import Recording, ReplayWorkers
from hemostat.tune.trial import Point


def recording(config) -> Recording:
    if config["lr"] > 0.05:
        return Recording(points=[], outcome="out_of_memory", why="20 GiB", end_s=1.0)
    points = [Point(at=at, value=config["lr"] + 1 / at, time_s=60.0 * at) for at in range(1, 10)]
    return Recording(points=points)


@pytest.fixture
def study():
    budget = Budget(max_s=3600.0, usd_per_device_hour=2.0)
    settings = Settings(length=9, step=1, budget=budget)
    space = Space((parameter.Real("lr", 1e-3, 1e-1),))
    return Study(Journal(None), space, samplers.sampler("random"), pruners.pruner("asha"), settings)


def followed(study: Study, stream) -> LiveStudy:
    live = LiveStudy("val_loss", stream)
    with live:
        drive(study, ReplayWorkers(recording, 2), live)
    return live


def test_every_end_is_said_once_and_the_best_with_its_parameters(study):
    said = io.StringIO()
    live = followed(study, said)
    lines = said.getvalue().splitlines()
    ends = [line for line in lines if line.startswith("trial ")]
    assert len(ends) == len(set(ends))
    assert any("out_of_memory" in line and line.endswith(": 20 GiB") for line in ends)
    bests = [line for line in lines if "best val_loss" in line]
    assert all("lr=" in line and "spent $" in line and "to go" in line for line in bests)
    number, value, at = leader(study.history)
    assert at == 9
    assert f"best val_loss {value:.4g}" in bests[-1]
    assert config_text(study.history.trials[number].config) in bests[-1]
    assert live.news(study) == []


def test_a_rung_shows_how_many_came_and_how_many_wait(study):
    followed(study, io.StringIO())
    rows = rung_rows(study.history)
    assert [row[0] for row in rows] == [f"{at:,}" for at in study.history.rungs]
    counts = [int(row[1]) for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] >= 3


def test_a_maximised_value_is_shown_as_it_was_measured():
    settings = Settings(length=9, step=9, direction="max", budget=Budget(max_s=2000.0))
    space = Space((parameter.Choice("lr", (0.01, 0.02)),))
    study = Study(Journal(None), space, samplers.sampler("grid"), pruners.pruner("none"), settings)
    followed(study, io.StringIO())
    assert leader(study.history)[1] == pytest.approx(0.02 + 1 / 9)
    assert "best accuracy 0.1311" in status_line(study, "accuracy")


def test_a_terminal_gets_a_table(study):
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    live = followed(study, screen)
    assert "rung" in screen.getvalue()
    console = Console(file=io.StringIO(), width=160)
    console.print(live._table(study))
    assert "waiting" in console.file.getvalue()
    assert "best: lr=" in console.file.getvalue()
