"""One number for gradients that lie on different meshes, in parts, copies and sums, on all ranks the same."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

from hemostat.train.parallel.norm import GradNorm, num_shards
from hemostat.train.update import scale_

SHAPES = [(7, 3), (1, 5), (4,), (6, 2)]  # uneven shards, and ranks with none


def values(stage: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(11 + stage)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]


def norm_of(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.square().sum()) for tensor in tensors))


def holder(grad: Tensor) -> nn.Parameter:
    """A parameter with this gradient."""
    if not isinstance(grad, DTensor):
        param = nn.Parameter(torch.zeros_like(grad))
    else:
        copies = [Replicate() if isinstance(kind, Partial) else kind for kind in grad.placements]
        param = nn.Parameter(torch.zeros_like(grad.redistribute(placements=copies)))
    param.grad = grad
    return param


def mixed() -> list[float]:
    """A plain gradient, a shard over one axis, one over both, and a sum that still lies in parts."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plain, over_tp, over_both, summed = values()
    grads = [
        plain,
        distribute_tensor(over_tp, mesh["tp"], [Shard(1)]),
        distribute_tensor(over_both, mesh, [Shard(0), Replicate()]),
        DTensor.from_local(summed / 2, mesh["tp"], [Partial()]),
    ]
    params = [holder(grad) for grad in grads]
    params.append(nn.Parameter(torch.zeros(3)))  # without a gradient
    return [GradNorm(4)(params), *(float(num_shards(grad)) for grad in grads)]


def test_parts_copies_and_sums_on_several_meshes(ranks):
    results = ranks(4, mixed)
    assert results[0][0] == pytest.approx(norm_of(values()), rel=1e-14)
    assert results[0][1:] == [1, 2, 2, 1]
    assert all(result == results[0] for result in results)


def strided() -> tuple[float, str]:
    """Torch cuts a matrix that is colwise over tp once more for FSDP, in an order of its own."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("fsdp", "tp"))
    torch.manual_seed(0)
    layer = nn.Linear(3, 6, bias=False).double()
    parallelize_module(layer, mesh["tp"], ColwiseParallel())
    fully_shard(layer, mesh=mesh["fsdp"])
    layer(torch.ones(2, 3, dtype=torch.float64)).square().sum().backward()
    placement = layer.weight.grad.placements[0]
    return GradNorm(4)(list(layer.parameters())), type(placement).__name__


def test_shards_of_shards(ranks):
    torch.manual_seed(0)
    layer = nn.Linear(3, 6, bias=False).double()
    layer(torch.ones(2, 3, dtype=torch.float64)).square().sum().backward()
    for norm, placement in ranks(4, strided):
        assert placement == "_StridedShard"
        assert norm == pytest.approx(float(layer.weight.grad.norm()), rel=1e-14)


def staged() -> float:
    """Two stages, each on two ranks that share its matrices; both hold the first gradient of the first one."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
    stage = dist.get_rank() // 2
    tied = holder(distribute_tensor(values(0)[0], mesh["tp"], [Shard(0)]))
    own = [holder(grad) for grad in values(stage)[1:]]
    return GradNorm(4, 2, tied=[tied])([tied, *own])


def test_stages_add_up_and_a_tied_gradient_counts_once(ranks):
    wanted = norm_of([values(0)[0], *values(0)[1:], *values(1)[1:]])
    results = ranks(4, staged)
    assert results[0] == pytest.approx(wanted, rel=1e-14)
    assert len(set(results)) == 1


def spoiled(value: float) -> float:
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    grad = distribute_tensor(values()[0], mesh, [Shard(0)])
    if dist.get_rank() == 1:
        grad.to_local()[-1, -1] = value
    return GradNorm(2)([holder(grad)])


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_one_bad_value_on_one_rank_is_seen_on_all(ranks, value):
    for result in ranks(2, spoiled, value):
        assert not math.isfinite(result)


def nothing(_: int) -> list[float]:
    """Rank 1 has no gradient at all, as the stage of a frozen block."""
    params = [nn.Parameter(torch.zeros(3))]
    if dist.get_rank() == 0:
        params[0].grad = torch.full((3,), 2.0)
    return [GradNorm(2, 2)(params), GradNorm(2, 2)([])]


def test_a_stage_without_gradients(ranks):
    assert ranks(2, nothing, 0) == [[pytest.approx(math.sqrt(12)), 0.0]] * 2


def collectives(_: int) -> int:
    """How often ranks meet for one norm of many gradients."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("fsdp",))
    params = [holder(distribute_tensor(grad, mesh, [Shard(0)])) for grad in values()] + [holder(values()[0])]
    found, original = [], dist.all_reduce

    def counted(tensor: Tensor, *args: object, **kwargs: object) -> object:
        found.append((tensor.numel(), tensor.dtype))
        return original(tensor, *args, **kwargs)

    dist.all_reduce = counted
    try:
        GradNorm(2)(params)
    finally:
        dist.all_reduce = original
    assert found == [(1, torch.float64)]
    return len(found)


def test_one_sum_of_one_number(ranks):
    assert ranks(2, collectives, 0) == [1, 1]


def test_dtypes_side_by_side():
    wide, narrow, single = (
        torch.full((3,), 1e200, dtype=torch.float64),
        torch.full((1000,), 0.3),
        torch.ones(5),
    )
    params = [holder(tensor) for tensor in (narrow.bfloat16(), narrow.half() * 1000, single)]
    wanted = norm_of([param.grad.double() for param in params])
    assert GradNorm(1)(params) == pytest.approx(wanted, rel=1e-6)  # half alone would overflow
    assert GradNorm(1)([holder(wide / 1e100)]) == pytest.approx(math.sqrt(3) * 1e100)


def scaled() -> list[float]:
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("fsdp", "tp"))
    grads = [distribute_tensor(values()[1], mesh["fsdp"], [Shard(0)]), values()[2]]
    grads.append(distribute_tensor(values()[0], mesh, [Shard(0), Replicate()]))
    before = GradNorm(2)([holder(grad) for grad in grads])
    scale_(grads, 0.25)
    scale_([], 0.25)
    return [before, GradNorm(2)([holder(grad) for grad in grads])]


def test_scaling_of_mixed_gradients(ranks):
    for before, after in ranks(2, scaled):
        assert after == pytest.approx(before / 4, rel=1e-14)
