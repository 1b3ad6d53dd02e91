"""`balance`: where a model's blocks are cut into pipeline stages, so that the slowest stage is as fast as can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from hemostat.errors import FieldError


def balance(
    costs: Sequence[float], num_stages: int, extra_first: float = 0.0, extra_last: float = 0.0
) -> tuple[int, ...]:
    """Cut blocks into stages, in order and none empty, with the largest cost of a stage as small as possible.

    The slowest stage sets the pace of a pipeline, so its cost is what counts. Cuts of equal pace differ in
    memory: the most even one is taken (least sum of squares), and of equally even ones the one with most blocks
    on the first stages, since the last one holds the logits too. All of it is exact, so that every rank cuts at
    the same place.

    Args:
        costs: of each block, in seconds, FLOP or any other one unit.
        num_stages: pieces, all ranks together.
        extra_first: cost on the first stage that belongs to no block (the embedding).
        extra_last: the same on the last stage (head and loss).

    Returns:
        num_stages + 1 borders; stage s holds blocks borders[s] to borders[s + 1] - 1.

    Raises:
        FieldError: fewer blocks than stages, no stage, or a cost that is negative or not finite.

    Source: the linear partition problem (Skiena, The Algorithm Design Manual, section on partition), here with a
        search for the least largest part and a table for the least sum of squares under it.

    Examples:
        >>> balance([1.0] * 8, 2)
        (0, 4, 8)
        >>> balance([1.0] * 8, 2, extra_last=2.0)
        (0, 5, 8)
    """
    _check(costs, num_stages, (extra_first, extra_last))
    blocks, first, last = _whole_numbers(costs, extra_first, extra_last)
    sums = list(accumulate(blocks, initial=0))
    # the extras belong to the outermost blocks: no stage is empty, so a stage has both or neither
    sums = [0, *(total + first for total in sums[1:-1]), sums[-1] + first + last]
    return _most_even(sums, num_stages, _least_largest(sums, num_stages))


def _whole_numbers(
    costs: Sequence[float], extra_first: float, extra_last: float
) -> tuple[list[int], int, int]:
    """The same costs in a unit that makes all of them whole: sums and squares are then free of rounding."""
    ratios = [float(cost).as_integer_ratio() for cost in (*costs, extra_first, extra_last)]
    unit = math.lcm(*(below for _, below in ratios))
    whole = [above * (unit // below) for above, below in ratios]
    return whole[:-2], whole[-2], whole[-1]


def _least_largest(sums: list[int], num_stages: int) -> int:
    """The least cost that no stage has to exceed, by halving the range it lies in."""
    low, high = 0, sums[-1]
    while low < high:
        middle = (low + high) // 2
        if _fits(sums, num_stages, middle):
            high = middle
        else:
            low = middle + 1
    return low


def _fits(sums: list[int], num_stages: int, largest: int) -> bool:
    """Fill stage after stage as far as it goes, leaving a block for each of the others."""
    num_blocks = len(sums) - 1
    begin = 0
    for stage in range(num_stages):
        furthest = num_blocks - (num_stages - 1 - stage)
        end = begin
        while end < furthest and sums[end + 1] - sums[begin] <= largest:
            end += 1
        if end == begin:
            return False
        begin = end
    return begin == num_blocks


def _most_even(sums: list[int], num_stages: int, largest: int) -> tuple[int, ...]:
    """Of the cuts without a stage above `largest`, the one with the least sum of squares."""
    num_blocks = len(sums) - 1
    # least[b]: the least sum of squares of blocks b.. in as many stages as were gone through, from the back
    least: list[int | None] = [None] * num_blocks + [0]
    ends: list[list[int]] = []
    for _ in range(num_stages):
        better: list[int | None] = [None] * (num_blocks + 1)
        choice = [0] * (num_blocks + 1)
        for begin in range(num_blocks):
            for end in range(begin + 1, num_blocks + 1):
                cost = sums[end] - sums[begin]
                if cost > largest:
                    break
                rest = least[end]
                if rest is None:
                    continue
                total, known = cost * cost + rest, better[begin]
                if known is None or total <= known:  # `<=`: of equals the longer stage
                    better[begin], choice[begin] = total, end
        least = better
        ends.append(choice)
    borders = [0]
    for choice in reversed(ends):
        borders.append(choice[borders[-1]])
    return tuple(borders)


def _check(costs: Sequence[float], num_stages: int, extras: tuple[float, float]) -> None:
    if num_stages < 1:
        raise FieldError("num_stages", num_stages, "must be 1 or more", "Give pp=1 or more.")
    if num_stages > len(costs):
        raise FieldError(
            "num_stages",
            num_stages,
            f"is more than the {len(costs)} block{'s' * (len(costs) != 1)} of the model",
            f"Give a layout with pp * stages_per_rank of {len(costs)} or less, or cut the model finer.",
        )
    for cost in (*costs, *extras):
        if not 0 <= cost < math.inf:
            raise FieldError("costs", cost, "must be finite and not negative", "Measure that block again.")
