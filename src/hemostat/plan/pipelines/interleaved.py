"""Interleaved 1F1B: several smaller stages on each rank, so that the wait at both ends is shorter."""

from __future__ import annotations

from hemostat.plan.pipelines import one_f_one_b
from hemostat.plan.pipelines.action import Action, StageTime
from hemostat.plan.pipelines.schedule import Size


def round_sizes(num_micro_batches: int, num_ranks: int) -> list[int]:
    """Micro-batches that pass one stage of a rank before the rank turns to its next stage, round by round.

    The paper has rounds of p micro-batches, and needs m to be a multiple of p. Here m is dealt out to as many
    rounds as hold p or more, the larger ones first: no round is then too short to keep all ranks busy. With the
    larger ones last, or with a short round at the end, many sizes end in ranks that wait for each other. Fewer
    micro-batches than ranks are one round.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2, for m a multiple of p; any other m by
        simulation, for p <= 16, m <= 64, v <= 4 (tests/plan/pipelines).

    Examples:
        >>> round_sizes(8, 4), round_sizes(11, 4), round_sizes(3, 4)
        ([4, 4], [6, 5], [3])
    """
    num_rounds = max(1, num_micro_batches // num_ranks)
    size, num_larger = divmod(num_micro_batches, num_rounds)
    return [size + 1] * num_larger + [size] * (num_rounds - num_larger)


def num_ahead(rank: int, size: Size) -> int:
    """Forward passes of a rank before forward and backward take turns, in units of (stage, micro-batch).

    Source: the first backward pass of the last rank needs all of its stages, v - 1 whole rounds and one pass; every
        rank before it is one pass further in both directions (Narayanan et al. 2021, arXiv 2104.04473, figure 4).
    """
    num_ranks, num_micro_batches, stages_per_rank = size
    first_round = round_sizes(num_micro_batches, num_ranks)[0]
    ahead = (stages_per_rank - 1) * first_round + 2 * (num_ranks - 1 - rank)
    return min(num_micro_batches * stages_per_rank, ahead)


def order(rank: int, size: Size) -> list[Action]:
    """The actions of one rank; with one stage per rank they are those of 1F1B.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2 and figure 4, where m is a multiple of p.

    Examples:
        >>> print(*order(1, Size(2, 2, stages_per_rank=2)))
        1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1
    """
    num_ranks, num_micro_batches, stages_per_rank = size
    if stages_per_rank == 1:
        return one_f_one_b.order(rank, size)
    stages = range(rank, num_ranks * stages_per_rank, num_ranks)
    forward: list[Action] = []
    backward: list[Action] = []
    begin = 0
    for length in round_sizes(num_micro_batches, num_ranks):
        numbers = range(begin, begin + length)
        forward += [Action(stage, "forward", number) for stage in stages for number in numbers]
        backward += [Action(stage, "backward", number) for stage in reversed(stages) for number in numbers]
        begin += length
    return one_f_one_b.take_turns(forward, backward, num_ahead(rank, size))


def bubble(size: Size, _time: StageTime) -> float:
    """Idle over busy time, however long the passes take.

    (p - 1) / (v m) for m >= p, and (v (p - m) + m - 1) / (v m) below: a round that is shorter than the pipeline
    waits p - m passes at each of its v - 1 turns and at its end.

    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2, for m a multiple of p. Any other m: derived
        here, and equal to the simulated one for p <= 16, m <= 64, v <= 4 (tests/plan/pipelines).

    Examples:
        >>> bubble(Size(4, 8, 2), StageTime()), bubble(Size(4, 1, 2), StageTime())
        (0.1875, 3.0)
    """
    num_ranks, num_micro_batches, stages_per_rank = size
    busy = stages_per_rank * num_micro_batches
    short = max(0, num_ranks - num_micro_batches)
    return (num_ranks - 1 + (stages_per_rank - 1) * short) / busy


def in_flight(rank: int, size: Size) -> int:
    """Pairs of stage and micro-batch held at once, each a v-th of what 1F1B holds of a micro-batch.

    min(v m, (v - 1) r + 2 (p - 1 - rank) + 1) with r the size of the first round (p, where m is a multiple of p):
    what is ahead, and one pass more before the first backward pass.

    Source: Narayanan et al. 2021, arXiv 2104.04473, figure 4. On the first rank v p + p - 1 pairs are
        1 + (p - 1) / (p v) of 1F1B's (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.3).

    Examples:
        >>> [in_flight(rank, Size(4, 8, 2)) for rank in range(4)]
        [11, 9, 7, 5]
    """
    if size.stages_per_rank == 1:
        return one_f_one_b.in_flight(rank, size)
    return min(size.num_micro_batches * size.stages_per_rank, num_ahead(rank, size) + 1)
