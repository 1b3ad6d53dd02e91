"""Weights and samples that must be alike; the odd ranks are named on all of them (tests/dist has whole runs)."""

import json
from types import SimpleNamespace

import pytest
import torch

from hemostat.errors import TaskError
from hemostat.plan import Layout
from hemostat.train.parallel.alike import Alike, check_same_model


class Said:
    """A world in which the other ranks say what they are given."""

    def __init__(self, change):
        self.change = change

    def gather(self, text):
        return [text, self.change(text)]


def test_a_buffer_that_differs_is_named():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))

    def other(text):
        told = json.loads(text)
        told["1.running_mean"][1] += 1
        return json.dumps(told)

    with pytest.raises(TaskError, match=r"another buffer 1\.running_mean on rank 1"):
        check_same_model(model, Said(other))
    check_same_model(model, Said(lambda text: text))


def test_a_parameter_that_one_rank_lacks_is_named():
    def other(text):
        told = json.loads(text)
        del told["bias"]
        return json.dumps(told)

    with pytest.raises(TaskError, match="another parameter bias on rank 1"):
        check_same_model(torch.nn.Linear(2, 2), Said(other))


def test_only_ranks_of_one_group_must_read_the_same_and_only_at_the_start():
    mesh = SimpleNamespace(layout=Layout(tp=2), world=Said(lambda text: "other"))
    looks = Alike(mesh)
    with pytest.raises(TaskError, match="ranks 0 and 1 share each sample in layout tp=2"):
        looks.check_samples(SimpleNamespace(data=torch.ones(2)))
    for _ in range(20):
        Alike(SimpleNamespace(layout=Layout(fsdp=2), world=None)).check_samples(SimpleNamespace(data=None))
    same = Alike(SimpleNamespace(layout=Layout(tp=2), world=Said(lambda text: text)))
    for _ in range(8):
        same.check_samples(SimpleNamespace(data=torch.ones(2)))
    same._mesh.world.change = lambda text: "other"
    same.check_samples(SimpleNamespace(data=torch.ones(2)))


def test_gradients_of_different_parameters_are_refused_within_a_stage():
    params = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    params[0].grad = torch.ones(1)
    two = SimpleNamespace(layout=Layout(fsdp=2), world=Said(lambda bits: "11"))
    with pytest.raises(TaskError, match="ranks 0 and 1 got gradients for different parameters"):
        Alike(two).check_grads(params)
    Alike(SimpleNamespace(layout=Layout(pp=2), world=Said(lambda bits: "111"))).check_grads(params)
    Alike(SimpleNamespace(layout=Layout(dp=2), world=None)).check_grads(params)
