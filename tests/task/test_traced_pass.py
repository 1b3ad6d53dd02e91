"""One traced pass: in which part things lived, and how much passed."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from hemostat.task.timeline import Timeline
from hemostat.task.traced_pass import Pass

ROWS, WIDTH = 4, 8
BYTES = 4 * ROWS * WIDTH


def followed(steps, num_blocks):
    """A pass that enters, leaves or computes as it is told."""
    with FakeTensorMode() as mode:
        weight = mode.from_tensor(nn.Parameter(torch.ones(WIDTH, WIDTH)))
        x = mode.from_tensor(torch.ones(ROWS, WIDTH))
    timeline = Timeline([weight], [x])
    found = Pass(timeline, {"weight": weight}, x, num_blocks)
    block = 0
    with timeline, torch.autograd.graph.saved_tensors_hooks(timeline.saved, lambda tensor: tensor):
        value = x @ weight
        for step in steps:
            if isinstance(step, int):
                block = step
                found.enter(block, (value,))
            elif step is None:
                found.leave(block, value)
            else:
                value = step(value)
        total = value.sum()
        del value
        found.end_forward()
        timeline.begin_backward()
        total.backward()
    return found


def test_what_is_computed_between_two_blocks_is_the_first_ones_and_behind_the_last_one_is_the_end():
    found = followed([0, torch.exp, None, torch.tanh, 1, torch.exp, None, torch.tanh], 2)
    parts = [(held.name, found.part_of(held.place)) for held in found.kept]
    assert parts == [("exp", 1), ("tanh", 1), ("exp", 2), ("tanh", 3), ("sum", 3)]
    assert found.input_bytes == {0: BYTES, 1: BYTES, 2: BYTES}
    assert found.kept_bytes() == [0, 2 * BYTES, BYTES, BYTES + 4]


def test_a_block_that_is_called_twice_is_one_part():
    found = followed([0, torch.exp, None, 0, torch.tanh, None], 1)
    assert [found.part_of(held.place) for held in found.kept] == [1, 1, 2]


def test_passing_is_what_lives_beyond_what_is_kept():
    found = followed([0, torch.exp, torch.sin, torch.exp, None], 1)
    # forward: a result beyond the inputs that are kept; backward: the gradient that is given, the one that is made,
    # the loss and its gradient
    assert found.passing_bytes(backward=False)[1] == BYTES
    assert found.passing_bytes(backward=True)[1] == 2 * BYTES + 2 * 4


def test_names_are_relative_to_the_block_and_what_came_from_outside_is_an_input():
    found = followed([0, torch.sin, torch.exp, None, 1, torch.sin, torch.exp, None], 2)
    names = found.named([("layers.0", nn.Identity()), ("layers.1", nn.Identity())])
    by_part = [[name for part, name, _ in names if part == number] for number in (1, 2)]
    # the first block keeps its own result, which is the second one's input: one storage, kept once
    assert by_part == [["input", "exp"], ["exp"]]
