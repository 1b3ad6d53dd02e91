"""Data parallelism: every rank holds the whole model and gradients are averaged (torch DDP)."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hemostat.train.process import World

# torch 2.13 renamed the argument and warns of the old name
_RENAMED = "forward_sync_buffers" in inspect.signature(DistributedDataParallel.__init__).parameters
_NO_BUFFERS: Any = {"forward_sync_buffers" if _RENAMED else "broadcast_buffers": False}

BucketSize = tuple[int, torch.dtype]


def wrap(model: torch.nn.Module, world: World, find_unused: bool) -> torch.nn.Module:
    """Wrap for gradient averaging; one rank needs no wrapper.

    Buffers are not sent at each forward: the session averages them before they are judged or saved. A wrapped model
    is made anew in its place, so that whoever holds it keeps the right one; nothing is sent for that, because the
    ranks hold the same weights and each its own running statistics.
    """
    if world.num_ranks == 1:
        return model
    options: Any = {
        "device_ids": [world.local_rank] if world.device.type == "cuda" else None,
        "gradient_as_bucket_view": True,
        "find_unused_parameters": find_unused,
        **_NO_BUFFERS,
    }
    if isinstance(model, DistributedDataParallel):
        DistributedDataParallel.__init__(model, model.module, init_sync=False, **options)
        return model
    return DistributedDataParallel(model, **options)


def settle(model: torch.nn.Module) -> list[BucketSize]:
    """Fix the buckets of a DDP model before its first step, in the reverse order of the parameters.

    Left alone, DDP builds them anew after the first backward, in the order in which gradients came. A resumed run
    would take its first step with other buckets than the run that was never interrupted, and sums over a ring differ
    with them in the last bits. One backward over a sum that touches every parameter settles them.

    Returns:
        Elements and dtype of each bucket, in the order in which they are reduced.

    Source: torch.nn.parallel.DistributedDataParallel, internal design (Reducer); measured with
        tests/dist/test_resume.py.
    """
    if not isinstance(model, DistributedDataParallel):
        return []
    reducer = model.reducer
    params = [param for param in model.module.parameters() if param.requires_grad]
    total = params[0].sum() * 0.0
    for param in params[1:]:  # the last one's gradient comes first
        total = total + param.sum() * 0.0
    reducer.prepare_for_backward([total] if model.find_unused_parameters else [])
    total.backward()
    reducer._rebuild_buckets()
    model.zero_grad(set_to_none=True)
    buffers = [bucket.buffer() for bucket in reducer._get_zeros_like_grad_buckets()]
    return [(buffer.numel(), buffer.dtype) for buffer in buffers]


def complete(model: torch.nn.Module, sizes: list[BucketSize], num_reduced: int) -> None:
    """Add zeros in place of the gradients that this rank cannot compute, so that the others do not wait for them.

    What it sent before stays in their sums, so all of them must drop this window.

    Args:
        model: as it was wrapped.
        sizes: from `settle`.
        num_reduced: buckets that this rank has sent already.

    Source: the order is that of torch.nn.parallel.DistributedDataParallel.join, which does the same for a rank
        without data: the buckets, then the map of used parameters.
    """
    if not isinstance(model, DistributedDataParallel) or num_reduced == len(sizes):
        return
    device = next(model.parameters()).device
    for numel, dtype in sizes[num_reduced:]:
        dist.all_reduce(torch.zeros(numel, dtype=dtype, device=device))
    if model.find_unused_parameters:
        dist.all_reduce(model.reducer._get_local_used_map())


def accumulating(model: torch.nn.Module, last: bool) -> AbstractContextManager[None]:
    """Hold back the averaging of gradients on every micro-batch but the last of its window."""
    if last or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()


def unwrap(model: torch.nn.Module) -> torch.nn.Module:
    """The user's module; forwards without gradients go through it, so that no hook waits for another rank."""
    return model.module if isinstance(model, DistributedDataParallel) else model
