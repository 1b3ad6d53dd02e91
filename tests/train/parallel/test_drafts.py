"""Which of the three ways a model goes, and which stage holds what."""

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.train.parallel.drafts import draft


class Follower(nn.Sequential):
    """A sequential with a forward of its own."""

    def forward(self, x):
        for module in self:
            x = module(x) + 1
        return x


def layers(num=4):
    return [nn.Linear(2, 2) for _ in range(num)]


def held(model, blocks, borders):
    return [sorted(stage.names) for stage in draft(model, blocks, borders, None).stages]


@pytest.mark.parametrize("kind", [nn.Sequential, Follower])
def test_children_go_with_the_block_before_them(kind):
    assert held(kind(*layers()), ["0", "1", "2", "3"], (0, 1, 4)) == [["0"], ["1", "2", "3"]]


def test_a_chain_has_ends_that_are_no_blocks():
    assert held(nn.Sequential(*layers()), ["1", "2"], (0, 1, 2)) == [["0", "1"], ["2", "3"]]


def test_nested_blocks_of_a_chain_are_traced():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(*layers()), nn.Linear(2, 2))
    blocks = ["1.0", "1.1", "1.2", "1.3"]
    assert held(model, blocks, (0, 2, 4)) == [["0", "1.0", "1.1"], ["1.2", "1.3", "2"]]


def test_a_chain_out_of_order_is_refused():
    with pytest.raises(TaskError, match=r"children of an nn\.Sequential out of order"):
        draft(nn.Sequential(*layers()), ["1", "0"], (0, 1, 2), None)


def test_hooks_on_the_model_are_refused():
    model = nn.Sequential(*layers())
    model.register_forward_hook(lambda *given: None)
    with pytest.raises(TaskError, match="Sequential has hooks on its forward, which no stage would run"):
        draft(model, ["0", "1", "2", "3"], (0, 1, 4), None)


def test_a_forward_that_fails_leaves_modes_and_model_alone():
    class Failing(Follower):
        def forward(self, x):
            torch.arange(2) + x
            return super().forward(x) if x.sum() > 0 else x

    model = Failing(*layers()).eval()
    before = set(vars(model))
    with pytest.raises(TaskError, match="cannot be followed"):
        draft(model, ["0", "1", "2", "3"], (0, 1, 4), None)
    assert not model.training and set(vars(model)) == before
