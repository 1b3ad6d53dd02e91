"""What lives when: births and deaths of storages, by place, forward and backward."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from hemostat.task.timeline import Timeline

ROWS, WIDTH = 4, 8
BYTES = 4 * ROWS * WIDTH


def faked(*tensors):
    with FakeTensorMode() as mode:
        return [mode.from_tensor(tensor) for tensor in tensors]


def followed(weights, inputs, forward):
    """The timeline of a forward pass, with its loss."""
    timeline = Timeline(weights, inputs)
    with timeline, torch.autograd.graph.saved_tensors_hooks(timeline.saved, lambda tensor: tensor):
        total = forward(timeline)
        kept = timeline.living()
        timeline.begin_backward()
        total.backward()
    return timeline, kept


def test_views_weights_and_inputs_are_no_storages_of_their_own():
    weight, x = faked(nn.Parameter(torch.ones(WIDTH, WIDTH)), torch.ones(ROWS, WIDTH))
    timeline = Timeline([weight], [x])
    with timeline:
        y = (x.view(WIDTH, ROWS).t() @ weight.t()).unsqueeze(0)
        living = timeline.living()
    assert [(held.name, held.num_bytes) for held in living] == [("mm", BYTES)]
    del y
    assert not timeline.living()
    assert [event.num_bytes for event in timeline.events] == [BYTES, -BYTES]


def test_what_is_saved_lies_where_it_is_saved_first_and_goes_in_backward():
    weight, x = faked(nn.Parameter(torch.ones(WIDTH, WIDTH)), torch.ones(ROWS, WIDTH))

    def forward(timeline):
        y = x @ weight
        timeline.open_place()
        return y.sin().exp().sum()

    timeline, kept = followed([weight], [x], forward)
    assert [(held.name, held.made, held.place) for held in kept][:2] == [("mm", 0, 1), ("exp", 1, 1)]
    assert timeline.readers_of(weight) == {0}
    backward = [event for event in timeline.events if event.backward]
    # exp, sin and sum run backward in the place of their forward, the product in that of its own
    assert [event.place for event in backward] == sorted((event.place for event in backward), reverse=True)
    assert {event.place for event in backward} == {0, 1}
    freed = [event.held for event in backward if event.num_bytes < 0]
    assert {held.name for held in kept} - {"sum"} <= {held.name for held in freed}


def test_a_gradient_and_a_copy_of_a_weight_are_marked():
    weight, x = faked(nn.Parameter(torch.ones(WIDTH, WIDTH)), torch.ones(ROWS, WIDTH))
    timeline = Timeline([weight], [x])
    weight.register_post_accumulate_grad_hook(lambda weight: timeline.is_gradient(weight.grad))
    with timeline:
        copied = weight.to(torch.float64)
        total = (x.double() @ copied).sum()
        timeline.begin_backward()
        total.backward()
    marked = {event.held.name for event in timeline.events if event.held.from_weights}
    assert marked == {"_to_copy"}
    assert weight.grad is not None
    assert any(event.held.is_gradient for event in timeline.events)


def test_products_traffic_and_cuts_are_those_of_the_forward_pass():
    weight, x = faked(nn.Parameter(torch.ones(WIDTH, WIDTH)), torch.ones(ROWS, WIDTH))

    def forward(timeline):
        timeline.word = "colwise"
        y = x @ weight
        timeline.word = ""
        return (y @ y.t()).relu().sum()

    timeline, kept = followed([weight], [x], forward)
    assert [(computed.product.has_weight, computed.cut) for computed in timeline.products] == [
        (True, "columns"),
        (False, "count"),
    ]
    assert {held.share for held in kept if held.name != "sum"} == {"tp"}
    scores = 4 * ROWS * ROWS
    assert timeline.moved_bytes == {0: 2 * scores + scores + 4}  # relu reads and writes, the sum reads


def test_an_operation_that_cannot_run_is_named():
    (x,) = faked(torch.ones(ROWS))
    timeline = Timeline([], [x])
    try:
        with timeline:
            x.sum().item()
    except RuntimeError:
        pass
    assert timeline.failed == "aten._local_scalar_dense.default"
