"""What Optuna reads back is what the study knew."""

from __future__ import annotations

import math
import sys

import pytest

from hemostat.errors import FieldError, MissingExtraError
from hemostat.tune.optuna_study import write_optuna
from hemostat.tune.space import Choice, Integer, Real, Space
from hemostat.tune.trial import History, Point, Trial

SPACE = Space(
    (
        Real("lr", 1e-4, 1e-1),
        Integer("batch", 8, 256),
        Choice("betas", ([0.9, 0.99], [0.9, 0.999])),
        Choice("momentum", (0.0, 0.9), when="batch > 100"),
    )
)


def trial(number, outcome, points, **config):
    points = tuple(Point(at=at, value=value, time_s=float(at)) for at, value in points)
    config = {"lr": 0.01, "batch": 16, "betas": [0.9, 0.99], **config}
    return Trial(
        number=number, config=config, origin="kde", points=points, outcome=outcome, time_s=4.0, why="why"
    )


HISTORY = History(
    trials=(
        trial(0, "finished", [(1, 0.5), (4, 0.7)], batch=128, momentum=0.9),
        trial(1, "paused", [(1, 0.4)]),
        trial(2, "nan", [(1, math.nan)]),
        trial(3, None, [(1, 0.3)]),
        trial(4, "finished", [(4, 0.9)], lr=0.1),
    ),
    sign=-1,
    rungs=(1, 4),
)


def test_trials_states_and_curves_are_read_back(tmp_path) -> None:
    optuna = pytest.importorskip("optuna")
    path = tmp_path / "deep" / "study.sqlite"
    assert write_optuna(path, "digits", SPACE, HISTORY) == 4
    study = optuna.load_study(study_name="digits", storage=f"sqlite:///{path}")
    assert study.best_value == 0.9 and study.best_params["lr"] == 0.1
    assert [each.state.name for each in study.trials] == ["COMPLETE", "PRUNED", "FAIL", "COMPLETE"]
    assert study.trials[0].intermediate_values == {1: 0.5, 4: 0.7}
    assert study.trials[0].params == {"lr": 0.01, "batch": 128, "betas": "[0.9, 0.99]", "momentum": 0.9}
    assert "momentum" not in study.trials[1].params
    assert study.trials[2].user_attrs["outcome"] == "nan"


def test_written_twice_is_there_once_and_others_stay(tmp_path) -> None:
    optuna = pytest.importorskip("optuna")
    path = tmp_path / "study.sqlite"
    for name in ("a", "b", "a"):
        write_optuna(path, name, SPACE, HISTORY)
    found = {each.study_name: each.n_trials for each in optuna.get_all_study_summaries(f"sqlite:///{path}")}
    assert found == {"a": 4, "b": 4}


def test_a_study_without_an_end_and_a_machine_without_optuna_are_told(tmp_path, monkeypatch) -> None:
    running = History(trials=HISTORY.trials[3:4], sign=1, rungs=(1, 4))
    pytest.importorskip("optuna")
    with pytest.raises(FieldError, match="no trial that has ended"):
        write_optuna(tmp_path / "x", "a", SPACE, running)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        write_optuna(tmp_path / "x", "a", SPACE, HISTORY)
