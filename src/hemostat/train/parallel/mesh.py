"""`Mesh`: the ranks of a job by the axes of their layout, and what a rank needs to know of its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from hemostat.plan import Layout
from hemostat.train.process import World


class Mesh:
    """Where this rank stands; all ranks of the job must make it together.

    Args:
        layout: what was asked for; the product of its axes is checked here.
        world: the ranks.

    Attributes:
        layout: with every axis known.
        world: the ranks.
        place: of this rank.
        data_rank: its share of the samples; ranks of one tp or pp group have the same.
        num_data_ranks: how many shares there are.
        has_output: the last pipeline stage is here, and with it output and loss.
        counts: the losses, metrics and samples of this rank count; others hold copies of them, or none.
        speaks: this rank writes down what one rank must, of losses and outputs.
        devices: torch's mesh over (pp, dp, fsdp, tp); None where every rank holds the whole model.

    Raises:
        FieldError: the layout is of another number of processes.
    """

    def __init__(self, layout: Layout, world: World) -> None:
        self.layout = layout.filled(world.num_ranks)
        self.world = world
        self.place = self.layout.place(world.rank)
        self.data_rank = self.layout.data_rank(world.rank)
        self.num_data_ranks = self.layout.num_data_ranks
        self.has_output = self.place.pp == self.layout.pp - 1
        self.counts = self.has_output and self.place.tp == 0
        self.speaks = self.counts and self.data_rank == 0
        self.devices: DeviceMesh | None = None
        self._of_stage: dist.ProcessGroup | None = None
        if not self.layout.is_dp:
            sizes = self.layout.sizes
            self.devices = init_device_mesh(
                world.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes)
            )
            self._of_stage = self._group_of_stage()

    def _group_of_stage(self) -> dist.ProcessGroup | None:
        """The ranks that hold the same stage; every rank must take part in making each group."""
        layout, mine = self.layout, None
        if layout.pp == 1:
            return None
        for stage in range(layout.pp):
            ranks = [rank for rank in range(layout.num_ranks) if layout.place(rank).pp == stage]
            group = dist.new_group(ranks)
            if stage == self.place.pp:
                mine = group
        return mine

    def along(self, *axes: str) -> DeviceMesh:
        """Torch's mesh of the ranks that differ from this one along these axes only.

        Raises:
            RuntimeError: every rank holds the whole model, so there is none.
        """
        if self.devices is None:
            raise RuntimeError(f"layout {self.layout} has no mesh")
        return self.devices[axes[0] if len(axes) == 1 else axes]

    @property
    def device(self) -> torch.device:
        """Where this rank computes."""
        return self.world.device

    def counted(self, *sums: Any) -> tuple[Any, ...]:
        """This rank's part of sums over all ranks: zeros where another rank adds the same."""
        return sums if self.counts else (0.0,) * len(sums)

    def average_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace each floating tensor by its mean over the ranks that hold the same part of the model, in place."""
        self.world.average_(tensors, self._of_stage)

    def copies(self) -> list[list[int]]:
        """Ranks that hold the same weights, for each set of weights."""
        layout = self.layout
        found: dict[tuple[int, ...], list[int]] = {}
        for rank in range(layout.num_ranks):
            place = layout.place(rank)
            found.setdefault((place.pp, place.fsdp, place.tp), []).append(rank)
        return list(found.values())
