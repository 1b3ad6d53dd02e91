"""Sharded data parallelism: each rank keeps a share of parameters, gradients and optimizer state (torch FSDP2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from hemostat.errors import FieldError


def shard(
    model: nn.Module,
    blocks: Sequence[nn.Module],
    mesh: DeviceMesh,
    *,
    reshard: bool = True,
    rounding: torch.dtype | None = None,
) -> None:
    """Share a model out in place: one unit per block, and one for what is left, which the root holds.

    The parameters become DTensors under the names they had. A unit is gathered before its forward pass and before
    its backward pass; gradients are averaged over all ranks of the mesh and each rank keeps its share of them, after
    every micro-batch. Blocks that share a parameter with something else stay in the root's unit.

    With `rounding` the float32 shards are rounded before they are gathered: half the bytes travel and lie there, and
    autocast finds nothing left to round. Without it autocast would gather float32 and keep a rounded copy of all
    blocks until backward. Embeddings and norms, which autocast leaves alone, are rounded too. The gradients of one
    micro-batch are summed over the ranks, and over micro-batches, in float32.

    Args:
        model: on its device, the same weights on all ranks; tensor parallelism and recomputation come before this.
        blocks: modules of it, in any order; one that is named twice is one unit.
        mesh: of one axis (the shards), or of two (copies, shards).
        reshard: drop a block's parameters after its forward pass, and gather them again for backward. The root's
            stay until backward either way, because they come first there.
        rounding: dtype of the gathered parameters; None = as they are kept.

    Raises:
        FieldError: a parameter without dims, or trainable parameters of several dtypes in one unit.

    Source: torch.distributed.fsdp.fully_shard.
    """
    units = _units(model, blocks)
    _check(model, units)
    with torch.no_grad():
        for param in model.parameters():
            if not param.is_contiguous():  # what torch would refuse; values and names stay
                param.data = param.data.contiguous()
    policy = MixedPrecisionPolicy()
    if rounding is not None:
        # inputs keep their dtype: autocast rounds them where it must, and positions stay exact
        policy = MixedPrecisionPolicy(rounding, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for unit in units:
        fully_shard(unit, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)


def replicate(model: nn.Module, blocks: Sequence[nn.Module], mesh: DeviceMesh) -> None:
    """Average gradients over the copies of a model that DDP cannot wrap: one with tensor-parallel parts, or a stage.

    It is `shard` over one rank. Of what torch 2.13 has beside it, DDP fails on DTensors; `_composable.replicate` takes
    them out of `parameters()`; `_composable.replicate_with_fsdp` is the same mechanism, but keeps a second copy of
    all parameters from forward to backward, where this keeps one of the root's and of one block at a time (measured).

    Args:
        model: as for `shard`.
        blocks: as for `shard`.
        mesh: of two axes (copies, shards), the second of size 1.
    """
    shard(model, blocks, mesh, reshard=True)


@contextmanager
def accumulating(model: nn.Module, last: bool) -> Iterator[None]:
    """Hold back the averaging over copies on every micro-batch but the last; that over shards is never held back.

    Shards are the reason for sharding: whole gradients between micro-batches would cost what it saves. The average
    over copies is of shards, so it can wait.

    Args:
        model: any; nothing happens to one that is not sharded.
        last: this is the last micro-batch of its window.
    """
    if isinstance(model, FSDPModule):
        model.set_requires_all_reduce(last)
    yield


def reshard(model: nn.Module) -> None:
    """Drop what forward passes without a backward have left gathered; after it `parameters()` are the shards again."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def _units(model: nn.Module, blocks: Sequence[nn.Module]) -> list[nn.Module]:
    """The blocks that can be a unit of their own: all their parameters belong to nothing else."""
    units: list[nn.Module] = []
    for block in blocks:
        if (
            block is not model
            and all(block is not unit for unit in units)
            and any(True for _ in block.parameters())
        ):
            units.append(block)
    owners: dict[int, set[int]] = {}  # parameter to the units it is in; 0 is the root
    inside = {id(module): number for number, unit in enumerate(units, 1) for module in unit.modules()}
    for module in model.modules():
        for param in module.parameters(recurse=False):
            owners.setdefault(id(param), set()).add(inside.get(id(module), 0))
    return [unit for unit in units if all(len(owners[id(param)]) == 1 for param in unit.parameters())]


def _check(model: nn.Module, units: Sequence[nn.Module]) -> None:
    for name, param in model.named_parameters():
        if param.dim() == 0:
            raise FieldError(
                "layout.fsdp",
                name,
                "is a parameter without dims, which cannot be shared out",
                "Give it the shape (1,).",
            )
    names = {id(param): name for name, param in model.named_parameters()}
    inside = {id(param) for unit in units for param in unit.parameters()}
    rest = [param for param in model.parameters() if id(param) not in inside]
    for params in (*(unit.parameters() for unit in units), rest):
        _check_dtypes(params, names)


def _check_dtypes(params: Iterable[nn.Parameter], names: dict[int, str]) -> None:
    first: dict[torch.dtype, str] = {}
    for param in params:
        if param.requires_grad:
            first.setdefault(param.dtype, names[id(param)])
    if len(first) > 1:
        (dtype, name), (other, other_name) = list(first.items())[:2]
        raise FieldError(
            "layout.fsdp",
            other_name,
            f"is {str(other).removeprefix('torch.')} and {name}, in the same block, is "
            f"{str(dtype).removeprefix('torch.')}; one block is averaged in one dtype",
            "Build the model in one dtype; train.precision rounds where it pays.",
        )
