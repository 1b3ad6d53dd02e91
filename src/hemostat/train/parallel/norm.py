"""`GradNorm`: the 2-norm of a gradient that lies on many ranks, with one sum of one number over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate

from hemostat.train.parallel.sharded import local


class GradNorm:
    """2-norm of all gradients together, over parameters that lie on different meshes; the same bits on all ranks.

    Each rank adds up the squares of what it holds, each divided by the number of ranks that hold the same values;
    the sum over all ranks counts every value once. Nothing else is sent, and the host waits once.

    Args:
        num_ranks: of the job.
        num_stages: ranks along the pipeline axis; each has parameters of its own.
        group: all ranks; None: the default group.
        tied: parameters that the first stage and the last one both hold, each with the whole gradient.

    Examples:
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> GradNorm(num_ranks=1)([weight])
        5.0
    """

    def __init__(
        self,
        num_ranks: int,
        num_stages: int = 1,
        group: dist.ProcessGroup | None = None,
        tied: Iterable[Tensor] = (),
    ) -> None:
        self._num_ranks = num_ranks
        self._num_stages = num_stages
        self._group = group
        self._tied = {id(param) for param in tied} if num_stages > 1 else set()

    def __call__(self, params: Sequence[Tensor]) -> float:
        """The norm of their gradients; NaN or infinite on all ranks where one value on one rank is.

        Args:
            params: of this rank, in the same order on all ranks of a stage; those without gradient count nothing.
        """
        groups: dict[int, list[Tensor]] = {}  # ranks that hold the same values to the values
        for param in params:
            if param.grad is not None:
                copies = self._num_ranks // (self._num_stages * num_shards(param.grad))
                copies *= 2 if id(param) in self._tied else 1
                groups.setdefault(copies, []).append(local(_reduced(param.grad)))
        squares = [_square(grads) / copies for copies, grads in groups.items()]
        square = torch.stack(squares).sum() if squares else torch.zeros((), dtype=torch.float64)
        if self._num_ranks > 1:
            if dist.get_backend(self._group) == "gloo":
                square = square.cpu()
            elif not square.is_cuda:
                square = square.cuda()
            dist.all_reduce(square, group=self._group)
        return math.sqrt(square.item())  # of NaN is NaN


def num_shards(tensor: Tensor) -> int:
    """In how many parts a tensor is cut; of a plain one, 1.

    Every placement that is neither a copy nor a sum in parts cuts: torch has several kinds of shards.
    """
    if not isinstance(tensor, DTensor):
        return 1
    sizes = zip(tensor.placements, tensor.device_mesh.shape, strict=True)
    return math.prod(size for placement, size in sizes if not isinstance(placement, Replicate | Partial))


def _reduced(grad: Tensor) -> Tensor:
    """A sum that still lies in parts has no norm; it is added up first, by all ranks of its mesh."""
    if not isinstance(grad, DTensor) or not any(
        isinstance(placement, Partial) for placement in grad.placements
    ):
        return grad
    return grad.redistribute(
        placements=[
            Replicate() if isinstance(placement, Partial) else placement for placement in grad.placements
        ]
    )


def _square(grads: Sequence[Tensor]) -> Tensor:
    """Sum of squares in float64; the norm of each tensor is computed in its dtype, in float32 at least."""
    narrow = [grad for grad in grads if grad.dtype in (torch.float16, torch.bfloat16)]
    wide = [grad for grad in grads if grad.dtype not in (torch.float16, torch.bfloat16)]
    norms = [*(torch._foreach_norm(wide) if wide else ())]
    norms += torch._foreach_norm(narrow, 2, torch.float32) if narrow else ()
    return torch.stack([norm.double() for norm in norms]).square().sum()
