"""Names of a model's tensors: all of them, each module once, a shared tensor by each of its names."""

import torch
from torch import nn

from hemostat.task.faked import named_tensors


def test_a_shared_tensor_has_both_names_and_a_shared_module_one():
    tied = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    tied["b"].weight = tied["a"].weight
    tied["again"] = tied["a"]
    tied.register_buffer("table", torch.zeros(3))
    tied.register_buffer("none", None)
    found = dict(named_tensors(tied))
    assert list(found) == ["table", "a.weight", "b.weight"]
    assert found["a.weight"] is found["b.weight"]
