"""Schedules as torch's runtime takes them, and stages that run them on two ranks."""

import pytest
import torch
from torch import nn
from torch.distributed.pipelining.schedules import _ComputationType

from hemostat.errors import TaskError
from hemostat.plan import Layout, pipeline
from hemostat.train.parallel.arrange import Splittable, arrange
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.parallel.pp import actions
from hemostat.train.process import World


def test_every_pass_is_translated_once():
    order = pipeline("zero_bubble", 2, 3)
    found = actions(order)
    assert [len(own) for own in found.values()] == [len(own) for own in order.ranks] == [9, 9]
    assert found[0][0].computation_type is _ComputationType.FORWARD
    kinds = {action.computation_type for action in found[1]}
    assert kinds == {
        _ComputationType.FORWARD,
        _ComputationType.BACKWARD_INPUT,
        _ComputationType.BACKWARD_WEIGHT,
    }


class Net(nn.Module):
    """Batch norm, so that running statistics would show a pass that nobody asked for."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)) for _ in range(4)
        ).double()

    def forward(self, x, scale=None):
        for layer in self.layers:
            x = layer(x if scale is None else x * scale)
        return x


def window(shapes: tuple[int, ...], named: bool) -> dict[str, object]:
    """Outputs, gradients and running statistics of windows of several shapes through two stages."""
    world = World.from_environment("cpu")
    given = (
        (torch.ones(2, 3, dtype=torch.float64),),
        {"scale": torch.ones(3, dtype=torch.float64)} if named else {},
    )
    parts = arrange(Splittable(Net(), inputs=given), Mesh(Layout(pp=2), world), None)
    generator = torch.Generator().manual_seed(1)
    scale = {"scale": torch.full((3,), 0.5, dtype=torch.float64)} if named else {}
    for rows in shapes:
        inputs = [
            ((torch.randn(rows, 3, generator=generator, dtype=torch.float64),), scale) for _ in range(3)
        ]
        parts.pipeline.window(inputs, [rows] * 3, lambda output, number: (output * (number + 1)).sum())
    parts.pipeline.eval()
    judged = parts.pipeline(*inputs[0][0], **scale)
    found = {
        "judged": judged,
        "grads": {name: param.grad for name, param in parts.model.named_parameters()},
        "buffers": dict(parts.model.named_buffers()),
    }
    world.close()
    return found


@pytest.mark.parametrize("named", [False, True])
def test_windows_of_several_shapes_are_those_of_the_whole_model(ranks, named):
    shapes = (4, 2, 4)
    found = ranks(2, window, shapes, named)
    model, generator = Net(), torch.Generator().manual_seed(1)
    scale = {"scale": torch.full((3,), 0.5, dtype=torch.float64)} if named else {}
    for rows in shapes:
        inputs = [torch.randn(rows, 3, generator=generator, dtype=torch.float64) for _ in range(3)]
        for number, x in enumerate(inputs):
            (model(x, **scale) * (number + 1)).sum().backward()
    model.eval()
    assert found[0]["judged"] is None
    torch.testing.assert_close(found[1]["judged"], model(inputs[0], **scale))
    grads = found[0]["grads"] | found[1]["grads"]
    buffers = found[0]["buffers"] | found[1]["buffers"]
    for name, param in model.named_parameters():
        torch.testing.assert_close(grads[name], param.grad)
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffers[name], buffer)


def numbered() -> str:
    world = World.from_environment("cpu")
    parts = arrange(Splittable(Net()), Mesh(Layout(pp=2), world), None)
    try:
        parts.pipeline.window(
            [((torch.ones(2, 3).double(), 3.0), {})], [2], lambda output, number: output.sum()
        )
    except TaskError as error:
        return str(error)
    finally:
        world.close()
    return ""


def test_an_input_that_is_no_tensor_is_refused_on_all_ranks(ranks):
    said = ranks(2, numbered)
    assert said[0] == said[1]
    assert "given a float" in said[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 3, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]


def recurrent() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Recurrent(), Recurrent()).double()


SEQUENCES = torch.arange(30.0, dtype=torch.float64).view(2, 5, 3) / 30


def recurrent_window() -> dict[str, object]:
    world = World.from_environment("cpu")
    parts = arrange(Splittable(recurrent(), inputs=((SEQUENCES,), {})), Mesh(Layout(pp=2), world), None)
    parts.pipeline.window([((SEQUENCES,), {})] * 2, [2] * 2, lambda output, number: output.square().sum())
    found = {name: param.grad for name, param in parts.model.named_parameters()}
    world.close()
    return found


def test_gradients_of_a_recurrent_layer_go_back_whatever_their_strides(ranks):
    """The gradient of its input has the strides of (positions, batch, width)."""
    first, second = ranks(2, recurrent_window)
    model = recurrent()
    for _ in range(2):
        model(SEQUENCES).square().sum().backward()
    for name, param in model.named_parameters():
        torch.testing.assert_close((first | second)[name], param.grad)
