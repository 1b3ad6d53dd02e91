"""A model divided in place, its optimizer with it; tests/dist/test_layouts.py compares with one process."""

import torch
from torch import nn

from hemostat.plan import Layout
from hemostat.train.parallel.arrange import Arranged, Splittable, arrange
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.parallel.tp import Shared
from hemostat.train.process import World


def test_copies_leave_the_model_as_it_is():
    model = nn.Linear(2, 2)
    parts = arrange(Splittable(model), Mesh(Layout(), World()), None)
    assert parts.model is parts.judged is model
    assert parts.pipeline is None


def test_recomputed_blocks_give_the_same_gradients_and_keep_their_names():
    grads = []
    for recompute in ("none", "full", "selective"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
        names = list(model.state_dict())
        parts = arrange(Splittable(model), Mesh(Layout(recompute=recompute), World()), None)
        parts.model(torch.ones(4, 3, dtype=torch.float64)).sum().backward()
        assert list(parts.model.state_dict()) == names
        grads.append([param.grad for param in parts.model.parameters()])
    for other in grads[1:]:
        assert all(torch.equal(*pair) for pair in zip(grads[0], other, strict=True))


def of_stage(folder: str) -> list[list[str]]:
    """Names of the parameters in each group of an optimizer that was built over the whole model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 1))
    weights = [module.weight for module in model]
    extra = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD(
        [{"params": weights}, {"params": [*(module.bias for module in model), extra]}], lr=0.1
    )
    world = World.from_environment("cpu")
    parts = arrange(Splittable(model), Mesh(Layout(pp=2), world), optimizer)
    names = parts.param_names(optimizer)
    assert any(param is extra for param in optimizer.param_groups[1]["params"])
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    world.close()
    return [names[: sizes[0]], names[sizes[0] :]]


def test_an_optimizer_follows_to_the_stage_group_by_group(ranks):
    first, second = ranks(2, of_stage, "")
    assert first == [["0.weight", "1.weight"], ["0.bias", "1.bias", "extra.4"]]
    assert second == [["2.weight", "3.weight"], ["2.bias", "3.bias", "extra.4"]]


def test_ranks_that_hold_other_parts_draw_other_random_numbers():
    def streams(layout: Layout, *, sequence_parallel: bool = False) -> list[int]:
        shared = Shared(sequence_parallel, False, ()) if layout.tp > 1 else None
        parts = Arranged(nn.Linear(1, 1), layout, shared=shared)
        mesh = Mesh.__new__(Mesh)
        mesh.layout, mesh.num_data_ranks = layout, layout.num_data_ranks
        found = []
        for rank in range(layout.num_ranks):
            mesh.place, mesh.data_rank = layout.place(rank), layout.data_rank(rank)
            found.append(parts.stream(mesh))
        return found

    assert streams(Layout(dp=2, pp=2)) == [0, 1, 2, 3]
    assert streams(Layout(dp=1, fsdp=2, tp=2)) == [0, 0, 1, 1]
    assert streams(Layout(dp=1, fsdp=2, tp=2), sequence_parallel=True) == [0, 2, 1, 3]
