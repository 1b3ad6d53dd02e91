"""The grid's levels and order."""

from __future__ import annotations

import random

import pytest

from hemostat.errors import FieldError
from hemostat.tune.samplers.grid import Grid
from hemostat.tune.space import Choice, Integer, Real, Space
from hemostat.tune.trial import History, Trial

SPACE = Space(
    (Real("lr", 1e-4, 1e-2), Choice("kind", ("a", "b")), Integer("layers", 1, 9, when="kind == 'b'")),
    constraints=("layers < 9",),
)


def test_levels_and_conditions():
    grid = list(Grid(3).gridded(SPACE).configs())
    assert [config["lr"] for config in grid[::3]] == [1e-4, 1e-3, 1e-2]
    assert grid[:3] == [
        {"lr": 1e-4, "kind": "a"},
        {"lr": 1e-4, "kind": "b", "layers": 1},
        {"lr": 1e-4, "kind": "b", "layers": 5},
    ]


def test_it_goes_on_after_others_and_ends():
    chosen, history, seen = Grid(3), History(trials=(), sign=1, rungs=(1,)), []
    grid = list(chosen.gridded(SPACE).configs())
    history = history.put(Trial(number=0, config=grid[1], origin="given"))
    while (config := chosen.propose(SPACE, history, random.Random(0))) is not None:
        seen.append(config)
        history = history.put(Trial(number=len(history.trials), config=config, origin="grid"))
    assert seen == [grid[0], *grid[2:]]


def test_one_level_is_no_grid():
    with pytest.raises(FieldError, match="at least 2"):
        Grid(1)
