"""A graph is cut where the fewest values cross, and what crosses are tensors."""

import pytest
import torch
from torch import nn

from hemostat.errors import TaskError
from hemostat.train.parallel.cuts import constants_of, cut
from hemostat.train.parallel.input_form import InputForm
from hemostat.train.parallel.tracing import ancestors_of, trace

BLOCKS = [f"blocks.{number}" for number in range(3)]


def net(body):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
            self.gain = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return body(self, x)

    return Net()


def pieces(body, borders=(0, 1, 2, 3)):
    model = net(body)
    return cut(trace(model, ancestors_of(BLOCKS), InputForm.of_signature(model)), BLOCKS, borders)


def num_values(found):
    """How many tensors each stage is given."""
    return [piece.source.partition("(")[2].partition(")")[0].count("value_") for piece in found[0]]


def residual(self, x):
    for block in self.blocks:
        x = x + block(x)
    return x


def sizes(self, x):
    rows, width = x.shape
    x = x * 2
    for block in self.blocks:
        x = block(x)
    return x.view(-1, rows, width // 2)


def split(self, x):
    left, right = torch.cat([x, x]).chunk(2)
    for block in self.blocks:
        left = block(left)
    return left + right


def test_only_the_stream_crosses_a_residual_model():
    assert num_values(pieces(residual)) == [1, 1, 1]


def test_sizes_are_asked_of_the_input_which_travels_instead():
    found = pieces(sizes)
    assert num_values(found) == [1, 2, 2]
    assert ".shape" in found[0][2].source and ".shape" not in found[0][1].source


def test_of_a_split_only_the_pieces_that_are_needed_cross():
    assert num_values(pieces(split)) == [1, 2, 2]


def test_a_parameter_is_used_where_it_stands():
    found = pieces(lambda self, x: self.blocks[2](self.blocks[1](self.gain * self.blocks[0](x))) * 3)
    assert [piece.names for piece in found[0]] == [{"blocks.0", "gain"}, {"blocks.1"}, {"blocks.2"}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda self, x: self.blocks[1](self.blocks[0](x)), r"blocks\.2 is called never in a forward"),
        (lambda self, x: self.blocks[0](residual(self, x)), r"blocks\.0 is called twice in a forward"),
        (
            lambda self, x: self.blocks[2](self.blocks[0](self.blocks[1](x))),
            r"called in the order blocks\.1, blocks\.0, blocks\.2\. Return them so",
        ),
    ],
)
def test_blocks_must_be_called_once_and_in_order(body, message):
    with pytest.raises(TaskError, match=message):
        pieces(body)


def test_the_output_gets_its_form_back():
    _, wrap = pieces(lambda self, x: {"y": [residual(self, x), None], "n": (x, 3)})
    output = wrap(("stream", "input"))
    assert output == {"y": ["stream", None], "n": ("input", 3)}
    assert type(output) is dict and type(output["y"]) is list
    assert pieces(residual)[1]("stream") == "stream"


def test_constants_are_taken_off_the_model():
    model = net(lambda self, x: residual(self, x) + torch.arange(2))
    trace(model, ancestors_of(BLOCKS), InputForm.of_signature(model))
    found = constants_of(model)
    assert [value.tolist() for value in found.values()] == [[0, 1]]
    assert constants_of(model) == {}
