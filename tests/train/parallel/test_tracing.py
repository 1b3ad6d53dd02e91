"""What a forward does around its blocks is followed, or refused with its line."""

import random

import numpy
import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.train.parallel.input_form import InputForm
from hemostat.train.parallel.tracing import ancestors_of, trace


def net(body):
    """A model of two blocks with this forward."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(2))
            self.inner = nn.Module()

        def forward(self, x):
            return body(self, x)

    return Net()


def compiled(*lines):
    """The same of source text, whose `assert` is Python's own and not that of the test runner."""
    space = {"torch": torch}
    exec("\n".join(["def body(self, x):", *(f"    {line}" for line in lines)]), space)
    return net(space["body"])


def followed(model):
    return trace(model, ancestors_of(["blocks.0", "blocks.1"]), InputForm.of_signature(model))


def branch(self, x):
    if x.sum() > 0:
        x = -x
    return self.blocks[1](self.blocks[0](x))


def without_gradients(self, x):
    with torch.no_grad():
        x = self.blocks[0](x)
    return self.blocks[1](x)


def in_half(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return self.blocks[1](self.blocks[0](x))


def torch_dice(self, x):
    return self.blocks[1](self.blocks[0](x + torch.rand(2)))


def python_dice(self, x):
    return self.blocks[1](self.blocks[0](x)) if random.random() < 2 else x


def numpy_dice(self, x):
    return self.blocks[1](self.blocks[0](x * numpy.random.rand()))


def keeps(self, x):
    self.blocks = x
    return x


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            branch,
            r"the forward of Net cannot be followed at .*test_tracing\.py:\d+, TraceError: symbolically traced",
        ),
        (
            without_gradients,
            r"cannot be followed at .*test_tracing\.py:\d+, TraceError: a context such as torch\.no_g",
        ),
        (in_half, r"TraceError: a context such as torch\.no_grad or torch\.autocast"),
        (torch_dice, "draws random numbers outside of its modules"),
        (python_dice, "draws random numbers outside of its modules"),
        (numpy_dice, "draws random numbers outside of its modules"),
        (keeps, r"cannot be followed at .*test_tracing\.py:\d+, TypeError"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_its_place(body, message):
    with pytest.raises(TaskError, match=message) as caught:
        followed(net(body))
    assert "Move these lines into a module of their own" in str(caught.value)


def test_the_inner_module_is_named():
    outer = nn.Module()
    outer.body = net(branch)
    outer_type = type("Outer", (nn.Module,), {"forward": lambda self, x: self.body(x)})
    outer.__class__ = outer_type
    with pytest.raises(
        TaskError, match=r"Outer cannot be cut into stages: the forward of body \(Net\) cannot be"
    ):
        trace(outer, ancestors_of(["body.blocks.0"]), InputForm.of_signature(outer))


def test_modules_beside_the_blocks_are_called_not_followed():
    model = net(lambda self, x: self.blocks[1](self.blocks[0](self.branching(x))))
    model.branching = net(branch)
    targets = [node.target for node in followed(model).nodes if node.op == "call_module"]
    assert targets == ["branching", "blocks.0", "blocks.1"]


def test_assertions_on_sizes_become_part_of_the_program():
    model = compiled(
        "rows, width = x.shape",
        "assert width <= 2, 'too wide'",
        "assert x.dim() == 2",
        "return self.blocks[1](self.blocks[0](x))",
    )
    graph = followed(model)
    assert [node.target for node in graph.nodes].count(torch._assert) == 2
    program = torch.fx.GraphModule(model, graph)
    program(torch.ones(5, 2))
    with pytest.raises(AssertionError, match="AssertionError at <string>:3"):
        program(torch.ones(5, 3))


def test_conditions_that_are_no_assertions_are_not_taken_for_some():
    for lines in (["if not x.dim() == 2:", "    raise ValueError"], ["x = x if x.dim() == 2 else -x"]):
        with pytest.raises(TaskError, match="control flow"):
            followed(compiled(*lines, "return self.blocks[1](self.blocks[0](x))"))


def test_tracing_leaves_random_states_alone():
    model = net(lambda self, x: self.blocks[1](self.blocks[0](torch.nn.functional.dropout(x))))
    before = torch.get_rng_state()
    followed(model)
    assert torch.equal(before, torch.get_rng_state())
