"""What is said before a study and at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from hemostat.cli.tune_setup import Asked, TuneSettings, setup
from hemostat.cli.tune_study import begin
from hemostat.cli.tune_text import answer_text, answer_values, begin_lines, status_of
from hemostat.errors import FieldError
from hemostat.tune import Budget, Space, drive
from hemostat.tune.parameter import Choice, Real
from hemostat.tune.replay import Recording, ReplayWorkers
from hemostat.tune.trial import Point

SPACE = Space(
    (Real("lr", 1e-4, 1e-1), Choice("opt", ("sgd", "adam")), Choice("m", (0.0, 0.9), "opt == 'sgd'"))
)


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(budget: Budget, **tune):
        words = ("python", "t.py", "{lr}", "{opt}", "{m}")
        asked = Asked(command=words, tune=TuneSettings(sampler="random", **{"length": 9, **tune}))
        ready = setup(asked, SPACE.names, 2)
        made.append(begin(tmp_path / "s", asked, SPACE, ready, budget, 2))
        return made[-1]

    yield make
    for each in made:
        each.journal.close()


def recording(config) -> Recording:
    return Recording(
        points=[Point(at=at, value=config["lr"] + 1 / at, time_s=10.0 * at) for at in range(1, 10)]
    )


def test_before_the_start_the_space_and_the_cost_are_said(opened):
    lines = begin_lines(opened(Budget(max_s=3600.0, usd_per_device_hour=2.0, s_per_unit=10.0)), 2)
    assert lines[0] == "study    s, 2 trials side by side, min of val_loss"
    assert "space    lr  0.0001 to 0.1, log" in lines
    assert "space    m  0.0, 0.9 when opt == 'sgd'" in lines
    assert any("trials are stopped, not paused" in line for line in lines)
    assert lines[-1] == "cost     at most 1h00m; a whole run takes 1m30s or $0.05: 80 of them at most"


def test_a_budget_below_one_run_says_the_least_that_makes_sense(opened):
    with pytest.raises(FieldError, match=r"is less than one run\. Give at least 1m30s"):
        begin_lines(opened(Budget(max_s=60.0, s_per_unit=10.0)), 2)


def test_without_a_length_it_is_said_that_nothing_is_stopped_early(opened):
    assert any("tune.length=30" in line for line in begin_lines(opened(Budget(max_s=60.0), length=None), 2))


def test_the_answer_has_the_best_value_its_parameters_and_what_is_left(opened):
    study = opened(Budget(max_s=1000.0))
    reason = drive(study.study, ReplayWorkers(recording, 2, can_pause=False))
    assert status_of(study, reason) == 0
    plain = answer_values(study)
    assert plain["best"]["value"] == pytest.approx(plain["best"]["config"]["lr"] + 1 / 9)
    text = answer_text(study, Path("runs"))
    assert f"trial {plain['best']['trial']}, by random" in text
    assert "unspent" in text
    assert f"again    python t.py {plain['best']['config']['lr']!r}" in text


def test_what_the_whole_grid_takes_is_said_before_and_after(tmp_path):
    space = Space((Choice("lr", (0.01, 0.02, 0.03)),))
    asked = Asked(command=("t", "{lr}"), tune=TuneSettings(length=9, sampler="random"))
    budget = Budget(max_s=400.0, s_per_unit=20.0, usd_per_device_hour=36.0)
    study = begin(tmp_path / "s", asked, space, setup(asked, ("lr",), 1), budget, 1)
    with study.journal:
        said = "\n".join(begin_lines(study, 1))
        assert "space    3 configurations; the whole grid takes 9m00s of trials, $5.40" in said
        assert "grid" not in answer_text(study, Path("runs"))
        drive(study.study, ReplayWorkers(recording, 1, can_pause=False))
        assert "grid     3 configurations; the whole grid takes 4m30s of trials, $2.70" in answer_text(
            study, Path("r")
        )


def test_failures_and_a_budget_without_a_whole_run_are_no_success(opened):
    study = opened(Budget(max_s=1000.0))
    assert status_of(study, "4 attempts in a row crashed") == 3
    assert status_of(study, "the budget does not pay for another run") == 5
    assert "no trial has given a value" in answer_text(study, Path("runs"))
