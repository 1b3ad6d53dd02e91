"""The gradient noise scale of a run, from norms that the step has at hand: no extra pass over the data."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from hemostat.data import MicroBatch
from hemostat.recipe import online
from hemostat.train.lag import Number
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.update import Norm


class NoiseMeter:
    """Compares the gradient of a part of the window with that of the whole.

    With several ranks the part is a rank's share: a DDP hook takes the norm of each bucket before it is averaged.
    With one rank and accumulation it is the first micro-batch. With one rank and one micro-batch there is nothing
    to compare, and nothing is measured.

    Args:
        mesh: the ranks. Under fsdp, dp beside tp, and pp the parts are summed before anybody sees them, and nothing
            is measured.
        norm: of the gradients of all parameters.
    """

    def __init__(self, mesh: Mesh, norm: Norm) -> None:
        self._num_ranks = mesh.num_data_ranks if mesh.layout.is_dp else 1
        self._sees_parts = mesh.num_data_ranks == mesh.layout.pp == 1
        self._norm = norm
        self._squares: list[torch.Tensor] = []
        self._scale = online.NoiseScale()
        self._first: tuple[float | torch.Tensor, int] | None = None
        self._part_batch = 0

    def watch(self, model: torch.nn.Module) -> None:
        """Look at the gradients of every bucket of a DDP model before they are averaged."""
        if isinstance(model, DistributedDataParallel):
            model.register_comm_hook(None, self._hook)

    def _hook(self, _: object, bucket):  # type: ignore[no-untyped-def]
        buffer = bucket.buffer()
        wide = torch.promote_types(buffer.dtype, torch.float32)  # in float64 it takes five times as long
        square = torch.linalg.vector_norm(buffer.detach(), dtype=wide).double().square()
        buffer.div_(self._num_ranks)
        work = dist.all_reduce(buffer, async_op=True)
        self._squares.append(square)  # last, as `num_reduced` counts what was sent
        return work.get_future().then(lambda done: done.value()[0])

    @property
    def num_reduced(self) -> int:
        """Buckets that this rank has sent in this window."""
        return len(self._squares)

    def after_micro_batch(self, micro: MicroBatch, params: list[torch.nn.Parameter]) -> None:
        """With one rank: remember the first micro-batch of a window of several."""
        if self._sees_parts and self._first is None and not micro.last:
            self._first = (self._norm(params), micro.num_samples)

    def part_square(self, loss_scale: float | torch.Tensor, number: Number = float) -> Any:
        """Squared norm of this rank's gradient since the last call, as it went into the average.

        Args:
            loss_scale: what fp16 multiplied the loss with; 1 otherwise.
            number: what each norm is made of before they are added; `float` asks the device.
        """
        square = sum(map(number, self._squares), number(0.0))
        if self._first is not None:
            square = number(self._first[0]) ** 2
        self._squares.clear()
        self._part_batch, self._first = (self._first[1] if self._first else 0), None
        return square / loss_scale**2

    def update(self, part_square: float, whole_norm: float, window_samples: int, factor: float) -> None:
        """Take one applied step.

        Args:
            part_square: `part_square` summed over the ranks.
            whole_norm: norm of the gradient of the mean loss.
            window_samples: samples of the window over all ranks.
            factor: what the gradients were multiplied by, samples / count.
        """
        if self._num_ranks > 1:
            small_square, small_batch = part_square / self._num_ranks, window_samples / self._num_ranks
        elif self._part_batch:
            small_batch = float(self._part_batch)
            small_square = part_square * (window_samples / small_batch) ** 2
        else:
            return
        self._scale.update(
            small_square=small_square * factor**2,
            big_square=whole_norm**2,
            small_batch=small_batch,
            big_batch=float(window_samples),
        )

    @property
    def critical_batch(self) -> float | None:
        """See `NoiseScale.critical_batch`."""
        return self._scale.critical_batch

    def state(self) -> dict[str, float]:
        """What a checkpoint needs to go on."""
        return self._scale.state()

    def restore(self, state: dict[str, float]) -> None:
        """Go on from `state()`."""
        self._scale.restore(state)
