"""Trees of tensors: count, move, shorten; every kind of tree keeps its kind."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch

from hemostat.errors import TaskError
from hemostat.task import to_device
from hemostat.task.batch import map_leaves, num_samples, take, tensors


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Bag(tuple):
    """A tuple of one's own, without names."""

    __slots__ = ()


@dataclass(frozen=True)
class Graph:
    nodes: torch.Tensor
    note: str


class Movable:
    def __init__(self, device="cpu"):
        self.device = device

    def to(self, device):
        return Movable(device)


class MovableDict(dict):
    """Like the encodings of Hugging Face tokenizers."""

    def to(self, device):
        return MovableDict({key: value.to(device) for key, value in self.items()})


X = torch.zeros(3, 2)
TREES = [
    X,
    (X, X),
    [X, [X]],
    {"a": X, "b": {"c": (X, "text", None, 3)}},
    OrderedDict(a=X),
    Pair(X, X),
    Bag([X, X]),
    Graph(X, "note"),
    (torch.tensor(1.0), X),
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_every_kind_of_tree(tree):
    assert num_samples(tree) == 3
    moved = to_device(tree, "meta")
    assert type(moved) is type(tree)
    assert all(tensor.device.type == "meta" for tensor in tensors(moved))
    assert len(list(tensors(moved))) == len(list(tensors(tree)))
    assert num_samples(take(tree, 2)) == 2
    assert repr(map_leaves(tree, lambda leaf: leaf)) == repr(tree)


def test_what_is_no_tensor_is_left():
    assert to_device({"name": "a", "n": 3, "nothing": None}, "meta") == {"name": "a", "n": 3, "nothing": None}


def test_objects_that_move_themselves():
    assert to_device([Movable()], "meta")[0].device == "meta"
    moved = to_device(MovableDict(input_ids=X), "meta")
    assert type(moved) is MovableDict
    assert moved["input_ids"].device.type == "meta"


def test_take_keeps_what_does_not_count_samples():
    shared = torch.zeros(7)
    batch = take((X, {"scale": torch.tensor(2.0)}), 1)
    assert batch[0].shape == (1, 2)
    assert batch[1]["scale"].dim() == 0
    with pytest.raises(TaskError):
        take((X, shared), 1)


def test_two_leading_dimensions_are_ambiguous():
    with pytest.raises(TaskError, match=r"have 3 and 4 as leading dimension.*Return \(loss, count\)"):
        num_samples((torch.zeros(3), torch.zeros(4, 3)))


@pytest.mark.parametrize("batch", [None, "text", [], {}, torch.tensor(1.0), (torch.tensor(1.0),)])
def test_no_samples_at_all(batch):
    with pytest.raises(TaskError, match="no tensor with a leading dimension"):
        num_samples(batch)


def test_an_empty_batch_has_no_samples():
    assert num_samples(torch.zeros(0, 3)) == 0
