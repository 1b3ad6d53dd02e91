"""The part of a tensor that a rank holds, and all of it."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from hemostat.train.parallel.sharded import local, whole


def test_of_a_plain_tensor_both_are_the_tensor():
    tensor = torch.ones(3)
    assert local(tensor) is tensor and whole(tensor) is tensor


def parts() -> list[list[float]]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    shared = distribute_tensor(torch.arange(5.0), mesh, [Shard(0)])
    before = whole(shared).tolist()
    local(shared).add_(1)  # in place, and no copy
    return [local(shared).tolist(), before, whole(shared).tolist()]


def test_of_a_tensor_that_is_shared_out(ranks):
    both = [[0.0, 1, 2, 3, 4], [1.0, 2, 3, 4, 5]]
    assert ranks(2, parts) == [[[1.0, 2, 3], *both], [[4.0, 5], *both]]
