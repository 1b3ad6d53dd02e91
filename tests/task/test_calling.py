"""Asking a task for what it builds."""

from pathlib import Path

import pytest
from torch import nn

from hemostat.errors import TaskError
from hemostat.task import Task, build_model, call


def task_with(**methods):
    return type("Digits", (Task,), methods)()


def test_answers_pass():
    assert call(task_with(val_data=lambda self: [1]), "val_data") == [1]
    assert isinstance(build_model(task_with(model=lambda self: nn.Linear(1, 1))), nn.Linear)


def test_an_exception_names_the_line():
    def model(self):
        return nn.Linear("1", 1)

    with pytest.raises(TaskError) as caught:
        build_model(task_with(model=model))
    assert str(caught.value).startswith("Digits.model raised TypeError: ")
    assert f"test_calling.py:{model.__code__.co_firstlineno + 1}." in str(caught.value)


def test_a_missing_file_is_one_line():
    with pytest.raises(
        TaskError, match=r"train_data raised FileNotFoundError: .*absent\.npy.* at .*test_calling\.py:\d+"
    ):
        call(task_with(train_data=lambda self: open("absent.npy")), "train_data")  # noqa: PTH123, SIM115


def test_setting_a_field_says_what_to_do():
    def train_data(self):
        self.data = [1]

    with pytest.raises(
        TaskError, match=r"FrozenInstanceError: cannot assign to field 'data'.*cached_property"
    ):
        call(task_with(train_data=train_data), "train_data")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, r"Digits\.model returned None: return a torch\.nn\.Module object"),
        (nn.Linear, r"returned the class Linear"),
        ([nn.Linear(1, 1)], r"returned a list"),
        (nn.ReLU(), r"without a trainable parameter"),
        (nn.Linear(1, 1).requires_grad_(False), r"without a trainable parameter"),
    ],
)
def test_what_is_no_model(answer, message):
    with pytest.raises(TaskError, match=message):
        build_model(task_with(model=lambda self: answer))


def test_a_file_that_one_rank_lacks_is_said_with_that_rank(monkeypatch):
    class Shards(Task):
        def train_data(self):
            return Path("shard-3.bin").open()

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        TaskError, match=r"shard-3.bin.* on rank 1 of 2 \(host .*Every rank must find the same"
    ):
        call(Shards(), "train_data")
