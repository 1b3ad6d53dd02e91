"""Weights and samples that must be alike; the odd ranks are named on all of them (tests/dist has whole runs)."""

import json
from types import SimpleNamespace

import pytest
import torch

from hemostat.errors import TaskError
from hemostat.plan import Layout
from hemostat.train.parallel.alike import SameBatches, check_same_model


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
    looks = SameBatches(mesh)
    with pytest.raises(TaskError, match="ranks 0 and 1 share each sample in layout tp=2"):
        looks.check(SimpleNamespace(data=torch.ones(2)))
    for _ in range(20):
        SameBatches(SimpleNamespace(layout=Layout(fsdp=2), world=None)).check(SimpleNamespace(data=None))
    same = SameBatches(SimpleNamespace(layout=Layout(tp=2), world=Said(lambda text: text)))
    for _ in range(8):
        same.check(SimpleNamespace(data=torch.ones(2)))
    same._mesh.world.change = lambda text: "other"
    same.check(SimpleNamespace(data=torch.ones(2)))
