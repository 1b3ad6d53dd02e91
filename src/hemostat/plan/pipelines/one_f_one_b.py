"""1F1B: as soon as a backward pass is possible, forward and backward take turns; idle like GPipe, less memory."""

from __future__ import annotations

from itertools import chain

from hemostat.plan.pipelines.action import Action, StageTime
from hemostat.plan.pipelines.schedule import Size


def order(rank: int, size: Size) -> list[Action]:
    """The actions of one rank.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1 (PipeDream-Flush, arXiv 2006.09503).

    Examples:
        >>> print(*order(0, Size(2, 3)))
        0F0 0F1 0B0 0F2 0B1 0B2
    """
    numbers = range(size.num_micro_batches)
    return take_turns(
        [Action(rank, "forward", number) for number in numbers],
        [Action(rank, "backward", number) for number in numbers],
        num_ahead=min(size.num_micro_batches, size.num_ranks - 1 - rank),
    )


def take_turns(forward: list[Action], backward: list[Action], num_ahead: int) -> list[Action]:
    """Some forward passes, then one forward and one backward by turns, then the backward passes that are left.

    Examples:
        >>> forward = [Action(0, "forward", number) for number in range(3)]
        >>> backward = [Action(0, "backward", number) for number in range(3)]
        >>> print(*take_turns(forward, backward, num_ahead=2))
        0F0 0F1 0F2 0B0 0B1 0B2
    """
    turns = chain.from_iterable(zip(forward[num_ahead:], backward, strict=False))
    return [*forward[:num_ahead], *turns, *backward[len(forward) - num_ahead :]]


def bubble(size: Size, _time: StageTime) -> float:
    """Idle over busy time: (p - 1) / m, for p ranks and m micro-batches, however long the passes take.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1.

    Examples:
        >>> bubble(Size(4, 8), StageTime())
        0.375
    """
    return (size.num_ranks - 1) / size.num_micro_batches


def in_flight(rank: int, size: Size) -> int:
    """Micro-batches held at once: min(m, p - rank); the first rank holds most.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1 (at most p, on the first rank).

    Examples:
        >>> [in_flight(rank, Size(4, 8)) for rank in range(4)]
        [4, 3, 2, 1]
    """
    return min(size.num_micro_batches, size.num_ranks - rank)
