"""Optuna as a proposer: missing extras, failures, its Gaussian process."""

from __future__ import annotations

import random
import sys

import pytest

from hemostat.errors import MissingExtraError
from hemostat.tune.samplers.optuna import Optuna
from hemostat.tune.space import Choice, Real, Space
from hemostat.tune.trial import History, Point, Trial

SPACE = Space((Real("lr", 1e-5, 1e-1), Choice("kind", ("a", "b"))))


def history(num: int, outcome: str = "finished") -> History:
    trials = []
    for number in range(num):
        config = {"lr": 10 ** (-1.1 - number % 7 / 2), "kind": "ab"[number % 2]}
        failed = outcome != "finished" and config["kind"] == "b"
        points = () if failed else (Point(at=1, value=number % 7, time_s=1.0),)
        trials.append(
            Trial(
                number=number,
                config=config,
                origin="x",
                points=points,
                outcome=outcome if failed else "finished",
            )
        )
    return History(trials=tuple(trials), sign=1, rungs=(1,))


def test_without_optuna_the_pip_line_is_printed(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hemostat\[tune\]'"):
        Optuna()


def test_failures_are_avoided():
    pytest.importorskip("optuna")
    kinds = [Optuna().propose(SPACE, history(20, "nan"), random.Random(seed))["kind"] for seed in range(20)]
    assert kinds.count("a") > 14


def test_the_gaussian_process_follows_from_its_arguments():
    for package in ("optuna", "torch", "scipy"):
        pytest.importorskip(package)
    kept = Optuna("optuna-gp")
    kept.propose(SPACE, history(11), random.Random(1))
    first, second = (
        chosen.propose(SPACE, history(12), random.Random(2)) for chosen in (kept, Optuna("optuna-gp"))
    )
    assert first == second
    assert SPACE.allows(first)
