"""GPipe: all forward passes, then all backward passes; the simplest order, and the one that holds most memory."""

from __future__ import annotations

from hemostat.plan.pipelines.action import Action, StageTime
from hemostat.plan.pipelines.schedule import Size


def order(rank: int, size: Size) -> list[Action]:
    """The actions of one rank.

    The paper goes back from the last micro-batch; this goes back from the first, which takes as long and adds up
    the gradients in the order of the samples.

    Source: Huang et al. 2019, GPipe (arXiv 1811.06965), figure 2.

    Examples:
        >>> print(*order(0, Size(2, 3)))
        0F0 0F1 0F2 0B0 0B1 0B2
    """
    numbers = range(size.num_micro_batches)
    forward = [Action(rank, "forward", number) for number in numbers]
    return forward + [Action(rank, "backward", number) for number in numbers]


def bubble(size: Size, _time: StageTime) -> float:
    """Idle over busy time: (p - 1) / m, for p ranks and m micro-batches, however long the passes take.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1. Huang et al. 2019, section 2.3, give the same
        as a part of the whole time, (p - 1) / (m + p - 1).

    Examples:
        >>> bubble(Size(4, 8), StageTime())
        0.375
    """
    return (size.num_ranks - 1) / size.num_micro_batches


def in_flight(_rank: int, size: Size) -> int:
    """Micro-batches held at once: all of them.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.
    """
    return size.num_micro_batches
