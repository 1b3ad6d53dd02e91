"""What a task says of where its model can be split reaches the layout."""

import pytest
import torch
from torch import nn

from hemostat.data import Source
from hemostat.errors import FieldError, TaskError
from hemostat.plan import Layout
from hemostat.task import Task
from hemostat.train.settings import TrainSettings
from hemostat.train.split_model import refuse_searches, split_model


class Chain(Task):
    def model(self):
        return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    def train_data(self):
        return torch.utils.data.TensorDataset(torch.ones(8, 3), torch.ones(8, 1))

    def blocks(self, model):
        return [model[0], model[2]]

    def tensor_plan(self, model):
        return {"0": "colwise", "2": "rowwise"}

    def loss(self, output, target):
        return (output - target).square().sum(), len(target)


class Stepping(Chain):
    loss = Task.loss

    def step(self, model, batch):
        return model(batch[0]).mean()


def given(task: Task, layout: str):
    model = task.model()
    return model, split_model(task, model, Source(task.train_data(), "train_data"), Layout.read(layout))


def test_blocks_and_plan_are_those_of_the_model():
    model, found = given(Chain(), "fsdp=2")
    assert found.blocks == [model[0], model[2]]
    assert found.tensor_plan == {"0": "colwise", "2": "rowwise"}
    assert found.inputs is None


def test_stages_learn_the_inputs_and_the_cost_of_the_loss():
    model, found = given(Chain(), "pp=2")
    (inputs,), named = found.inputs
    assert inputs.shape == (1, 3)
    assert named == {}
    assert found.loss(model(inputs)).count == 1


def test_a_task_that_steps_by_itself_has_no_stages():
    with pytest.raises(TaskError, match=r"Stepping has step\(\).*pp=2"):
        given(Stepping(), "pp=2")
    given(Stepping(), "fsdp=2")


def test_copies_ask_nothing():
    model, found = given(Chain(), "dp=2")
    assert found == (model, None, None, None, None, None)


@pytest.mark.parametrize("name", ["lr_range", "find_micro_batch"])
def test_searches_on_whole_models_are_refused_with_the_layout(name):
    with pytest.raises(FieldError, match=f"train.{name}=True: .*layout fsdp=2"):
        refuse_searches(TrainSettings(layout=Layout(fsdp=2), **{name: True}))
    refuse_searches(TrainSettings(layout=Layout(dp=2), **{name: True}))
