"""What must be alike on ranks that share a model: its weights at the start, and the samples of a tp or pp group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

from hemostat.data import MicroBatch
from hemostat.errors import TaskError
from hemostat.train.guards import leaves_digest
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.process import World

LOOKS: Final = 8  # micro-batches that are compared, at the start of each attempt
_INTS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def checksum(tensor: Tensor) -> Tensor:
    """Sum of the bit patterns of a dense tensor as integers, int64 of no dims; one changed bit changes it.

    Examples:
        >>> int(checksum(torch.tensor([1.0, -0.0])) - checksum(torch.tensor([1.0, 0.0])))
        -2147483648
    """
    flat = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    return flat.view(_INTS[flat.element_size()]).sum(dtype=torch.int64)


def check_same_model(model: nn.Module, world: World) -> None:
    """Refuse a model that was built differently on some rank: shards of unlike models make no model.

    Args:
        model: whole, freshly built, on every rank.
        world: the ranks.

    Raises:
        TaskError: on all ranks, with the first parameter or buffer that differs.
    """
    named = {
        name: value for name, value in (*model.named_parameters(), *model.named_buffers()) if value.numel()
    }
    sums = torch.stack([checksum(value).cpu() for value in named.values()]).tolist() if named else []
    mine = {name: [list(named[name].shape), number] for name, number in zip(named, sums, strict=True)}
    said = [json.loads(text) for text in world.gather(json.dumps(mine))]
    for name in dict.fromkeys(name for told in said for name in told):
        for rank, told in enumerate(said):
            if told.get(name) != said[0].get(name):
                kind = "buffer" if name in dict(model.named_buffers()) else "parameter"
                raise TaskError(
                    f"model() built another {kind} {name} on rank {rank} than on rank 0, and a layout shares out one "
                    "model. Draw from torch's generator, which is seeded alike on all ranks, and let nothing in "
                    "model() depend on the rank."
                )


class Alike:
    """Compares what ranks that share a model must have in common, for the first few micro-batches and windows.

    Args:
        mesh: the ranks.
    """

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._left = LOOKS if mesh.layout.tp * mesh.layout.pp > 1 else 0
        self._windows_left = 0 if mesh.layout.is_dp else LOOKS

    def check_samples(self, micro: MicroBatch) -> None:
        """Look at a micro-batch; call it on all ranks.

        Raises:
            TaskError: the ranks of one tp or pp group have read other samples; on all ranks.
        """
        if not self._left:
            return
        self._left -= 1
        mesh = self._mesh
        said = mesh.world.gather(leaves_digest(micro.data))
        first: dict[int, int] = {}  # share of the samples to the first rank that has it
        for rank, digest in enumerate(said):
            other = first.setdefault(mesh.layout.data_rank(rank), rank)
            if digest != said[other]:
                raise TaskError(
                    f"ranks {other} and {rank} share each sample in layout {mesh.layout}, and have read different "
                    "ones. Let train_data() and what it draws (augmentation, shuffling) be the same on all ranks: "
                    "draw from hemostat.data.sample_rng(index)."
                )

    def check_grads(self, params: Sequence[Tensor]) -> None:
        """Look at the end of a window, before its update; call it on all ranks.

        Args:
            params: of this rank's optimizer.

        Raises:
            TaskError: a parameter has a gradient on some of the ranks that share it only; on all ranks.
        """
        if not self._windows_left:
            return
        self._windows_left -= 1
        layout = self._mesh.layout
        said = self._mesh.world.gather("".join("01"[param.grad is not None] for param in params))
        first: dict[int, int] = {}  # stage to the first rank that has it
        for rank, bits in enumerate(said):
            other = first.setdefault(layout.place(rank).pp, rank)
            if bits != said[other]:
                raise TaskError(
                    f"ranks {other} and {rank} got gradients for different parameters, and in layout {layout} sums "
                    "over shards would mix them up. Let every micro-batch use the same parameters, or add 0.0 times "
                    "the sum of those that it left out to the loss."
                )
