"""Self-check of a loss: the same samples twice must give twice the sum and twice the count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from hemostat.errors import TaskError
from hemostat.task.batch import map_leaves, num_samples, take
from hemostat.task.modes import evaluation_mode

_TOLERANCE: Final = 0.01  # far from 1, 2 and 4, far above float16 noise


def check_doubling(
    compute: Callable[[nn.Module, Any], Any], model: nn.Module, batch: Any, *, name: str, kind: str
) -> str:
    """Refuse a mean where a sum belongs, and the other way round.

    Runs two forward passes on half of the batch, without gradients, in evaluation mode, and leaves the
    model and the random state as they were. A batch that cannot be doubled is let pass.

    Args:
        compute: `LossDoor.compute`.
        model: the model.
        batch: any training batch.
        name: the method, for messages.
        kind: "loss" or "step".

    Returns:
        "" where all is well, else one sentence about a loss that is no sum over samples.

    Raises:
        TaskError: a mean was returned as a sum, a sum as a mean, or a count that stands still.
    """
    with evaluation_mode(model), torch.no_grad(), torch.random.fork_rng():
        try:
            size = num_samples(batch)
            part = take(batch, max(1, size // 2))
            once = compute(model, part)
            twice = compute(model, _doubled(part))
        except TaskError:
            return ""  # the real call reports it, if it is one
        first, second = float(once.sum), float(twice.sum)
        counts = float(once.count), float(twice.count)
    if not first or not counts[0]:
        return ""
    grown, counted = second / first, counts[1] / counts[0]
    if _near(counted, 2) and _near(grown, 1):
        raise TaskError(
            f"{name} returns a mean where a sum belongs: the same samples twice gave {first:.4g} again. "
            f"Return the sum, for example with reduction='sum'."
        )
    if _near(counted, 2) and _near(grown, 4) and kind == "step":
        raise TaskError(
            f"{name} returns a sum where a mean belongs: the same samples twice gave twice the loss. "
            f"Return the mean, or use loss(self, output, target) that returns (sum, count)."
        )
    if _near(counted, 1) and _near(grown, 2):
        raise TaskError(
            f"{name} returns a count that does not grow with the batch: the same samples twice gave "
            f"{counts[0]:g} again. Return the number of items in the sum, such as target.numel()."
        )
    if _near(counted, 2) and _near(grown, 2):
        return ""
    return (
        f"{name} is no sum over samples (twice the samples gave {grown:.3g} times the loss): it changes with "
        f"the micro-batch"
    )


def _near(value: float, wanted: float) -> bool:
    return abs(value / wanted - 1) < _TOLERANCE


def _doubled(batch: Any) -> Any:
    size = num_samples(batch)

    def twice(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return torch.cat([leaf, leaf]) if leaf.dim() and leaf.shape[0] == size else leaf
        return leaf

    return map_leaves(batch, twice)
