"""Task: a frozen dataclass with defaults, and a message for every class body that cannot be meant."""

import dataclasses
import functools
from typing import ClassVar, NamedTuple

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.task import Task
from hemostat.task.task import HOOKS, hyper_parameters


class Line(Task):
    lr: float = 0.1
    width: int = 8


class Wide(Line):
    width: int = 64
    depth: int = 2


def test_fields_are_hyper_parameters():
    assert hyper_parameters(Line(width=16)) == {"lr": 0.1, "width": 16}
    assert hyper_parameters(Wide()) == {"lr": 0.1, "width": 64, "depth": 2}


def test_tasks_are_frozen_keyword_only_and_comparable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Line().lr = 0.2
    with pytest.raises(TypeError):
        Line(0.2)
    assert Line() == Line(lr=0.1)


def test_the_root_has_the_task():
    import hemostat

    assert hemostat.Task is Task


def test_what_is_built_once_can_be_kept():
    class Cached(Task):
        @functools.cached_property
        def table(self):
            return object()

    task = Cached()
    assert task.table is task.table


def test_constants_methods_and_class_variables_are_left_alone():
    class Fine(Task):
        CLASSES = 10
        _private = 3
        names: ClassVar[list[str]] = ["a"]
        betas: tuple[float, float] = (0.9, 0.99)
        widths: list[int] = dataclasses.field(default_factory=lambda: [1, 2])

        class Inner:
            pass

        @property
        def both(self):
            return self.betas

    assert hyper_parameters(Fine()) == {"betas": (0.9, 0.99), "widths": [1, 2]}


def test_an_attribute_without_a_type_is_no_silent_constant():
    with pytest.raises(TaskError, match=r"Bad\.lr=0\.1 has no type\. Write lr: float = 0\.1"):

        class Bad(Task):
            lr = 0.1


def test_an_inherited_field_cannot_be_overridden_in_silence():
    # dataclasses would keep the default of the parent here
    with pytest.raises(TaskError, match=r"Child\.width=3 has no type\. Write width: int = 3"):

        class Child(Line):
            width = 3


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, {1, 2}])
def test_mutable_defaults(value):
    with pytest.raises(
        TaskError, match=r"Shared\.widths=.* would be shared by all tasks\. Write (a tuple|widths)"
    ):
        type("Shared", (Task,), {"__annotations__": {"widths": list}, "widths": value})


@pytest.mark.parametrize("name", [name for name in HOOKS if name != "optimizer"])
def test_a_field_cannot_take_the_name_of_a_method(name):
    with pytest.raises(TaskError, match=rf"Clash\.{name} is a method of Task"):
        type("Clash", (Task,), {"__annotations__": {name: str}, name: "x"})


def test_the_optimizer_may_be_a_name():
    class Named(Task):
        optimizer: str = "sgd"

    assert Named().optimizer == "sgd"


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


X, Z, Y = torch.zeros(2), torch.ones(2), torch.tensor([1, 2])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((X, Y), ((X,), {}, Y)),
        ([X, Y], ((X,), {}, Y)),
        ((X, Z, Y), ((X, Z), {}, Y)),
        (((X, Z), Y), (((X, Z),), {}, Y)),
        (Pair(X, Y), ((X,), {}, Y)),
        ({"x": X, "target": Y}, ((), {"x": X}, Y)),
        ({"input_ids": X, "attention_mask": Z, "labels": Y}, ((), {"input_ids": X, "attention_mask": Z}, Y)),
        ({"y": Y, "x": {"a": X}}, ((), {"x": {"a": X}}, Y)),
        ({"label": X, "target": Y}, ((), {"label": X}, Y)),
    ],
)
def test_split(batch, expected):
    assert repr(Line().split(batch)) == repr(expected)


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        (X, "a Tensor"),
        ((X,), "a tuple of 1"),
        ({"a": X, "b": Y}, "a dict with keys 'a', 'b'"),
        (None, "a NoneType"),
    ],
)
def test_a_batch_without_a_target(batch, what):
    with pytest.raises(TaskError, match=rf"Line: no target found in a batch that is {what}\. Write split"):
        Line().split(batch)


def test_optional_methods_say_none():
    task = Line()
    model = nn.Linear(1, 1)
    for answer in (task.val_data(), task.test_data(), task.fingerprint()):
        assert answer is None
    assert task.blocks(model) is None
    assert task.tensor_plan(model) is None
    assert task.show(None, None) is None
    assert task.metrics(None, None) == {}
