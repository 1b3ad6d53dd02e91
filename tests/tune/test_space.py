"""Conditions, constraints, keys, neighbours, and what is refused."""

from __future__ import annotations

import random

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.tune.space import Choice, Integer, Real, Space

OPTIMIZER = Choice("optimizer", ("adamw", "sgd"))
NESTED = Space(
    (
        Choice("nesterov", (True, False), when="momentum > 0.5"),
        Choice("momentum", (0.0, 0.9), when="optimizer == 'sgd'"),
        OPTIMIZER,
        Integer("layers", 1, 2),
    )
)


def test_what_does_not_exist_is_left_out_whatever_the_order():
    found = {NESTED.key(NESTED.sample(random.Random(seed))) for seed in range(300)}
    assert NESTED.num_configs == len(found) == 8
    assert {NESTED.key(config) for config in NESTED.configs()} == found
    assert "optimizer='adamw';layers=1" in found
    assert "nesterov=True;momentum=0.9;optimizer='sgd';layers=2" in found


def test_the_unit_cube_has_a_middle_for_what_does_not_exist():
    assert NESTED.encode({"optimizer": "adamw", "layers": 1}) == (0.5, 0.5, 0.25, 0.25)
    assert NESTED.decode((0.9, 0.9, 0.1, 0.9)) == {"optimizer": "adamw", "layers": 2}


@pytest.mark.parametrize("config", list(NESTED.configs()))
def test_places_lead_back(config):
    assert NESTED.decode(NESTED.encode(config)) == config
    assert NESTED.allows(config)


@pytest.mark.parametrize(
    "config",
    [
        {"optimizer": "adamw", "layers": 3},
        {"optimizer": "adamw"},
        {"optimizer": "adamw", "layers": 1, "momentum": 0.9},
        {"optimizer": "sgd", "layers": 1},
        {"optimizer": "adamw", "layers": 1, "lr": 1},
    ],
)
def test_what_is_not_in_the_space(config):
    assert not NESTED.allows(config)


def test_constraints_hold_for_every_draw():
    space = Space((Integer("micro", 1, 64), Integer("steps", 1, 64)), constraints=("micro * steps == 64",))
    assert space.num_configs == 7
    assert all(space.allows(space.sample(random.Random(seed))) for seed in range(20))
    assert not space.allows({"micro": 64, "steps": 2})


def test_a_constraint_says_nothing_about_what_does_not_exist():
    space = Space((OPTIMIZER, Choice("momentum", (0.0, 0.9), when="optimizer == 'sgd'")), ("momentum > 0.5",))
    assert list(space.configs()) == [{"optimizer": "adamw"}, {"optimizer": "sgd", "momentum": 0.9}]


def test_equal_numbers_have_one_key():
    space = Space((Real("lr", 0.1, 1.0), Integer("layers", 1, 4), Choice("batch", (8, 16))))
    assert space.key({"lr": 1, "layers": 2.0, "batch": 8.0}) == space.key(
        {"lr": 1.0, "layers": 2, "batch": 8}
    )
    assert space.num_configs is None


def test_neighbours_differ_in_one_parameter_the_higher_value_first():
    space = Space((Real("lr", 1e-4, 1e-2), Choice("batch", (32, 64, 128)), OPTIMIZER))
    near = space.neighbours({"lr": 1e-3, "batch": 32, "optimizer": "sgd"}, 0.25)
    assert [config["lr"] for config in near] == [0.003162, 0.0003162, 1e-3, 1e-3]
    assert [config["batch"] for config in near] == [32, 32, 64, 32]
    assert near[-1]["optimizer"] == "adamw"


def test_neighbours_obey_and_bring_what_comes_to_exist():
    space = Space(
        (OPTIMIZER, Choice("momentum", (0.0, 0.5, 0.9), when="optimizer == 'sgd'"), Integer("layers", 1, 8)),
        ("layers <= 4",),
    )
    near = space.neighbours({"optimizer": "adamw", "layers": 4}, 0.1)
    assert near == [{"optimizer": "sgd", "momentum": 0.5, "layers": 4}, {"optimizer": "adamw", "layers": 3}]


def test_a_start_is_filled_up():
    space = Space((Real("lr", 1e-4, 1e-2), Integer("layers", 1, 3)), start={"layers": 3})
    assert space.start == {"lr": 1e-3, "layers": 3}


@pytest.mark.parametrize(
    ("parameters", "constraints", "start", "match"),
    [
        ((), (), None, "no parameter"),
        ((OPTIMIZER, OPTIMIZER), (), None, "twice"),
        ((Choice("a", (1, 2)), Choice("b", (1, 2))), ("a > b", "b > a"), None, "allow none of the 4"),
        ((Real("a", 0.0, 1.0), Real("b", 0.0, 1.0)), ("a > b", "b > a"), None, "allowed none of 20,000"),
        ((Choice("a", (1, 2), when="b == 1"), Choice("b", (1, 2), when="a == 1")), (), None, "circle"),
        ((Choice("a", (1, 2)),), ("a < 2",), {"a": 2}, "breaks the constraint"),
        ((Choice("a", (1, 2)),), (), {"a": 3}, "one of"),
        ((Choice("a", ("x", "y")), Choice("b", (1, 2))), ("a < b",), None, "has no meaning"),
    ],
)
def test_contradictions_are_told(parameters, constraints, start, match):
    with pytest.raises(FieldError, match=match):
        Space(parameters, constraints, start)


@pytest.mark.parametrize(
    ("when", "constraints", "start"),
    [("optimiser == 'x'", (), None), (None, ("lr < 1",), None), (None, (), {"x": 1})],
)
def test_unknown_names_are_told(when, constraints, start):
    with pytest.raises(UnknownNameError, match="Known: layers, optimizer"):
        Space((OPTIMIZER, Integer("layers", 1, 2, when=when)), constraints, start)
