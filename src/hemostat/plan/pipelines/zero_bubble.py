"""Zero bubble (ZB-H1): backward in two parts, and the part that nobody waits for fills the idle time at the end."""

from __future__ import annotations

from hemostat.plan.pipelines import one_f_one_b
from hemostat.plan.pipelines.action import Action, StageTime
from hemostat.plan.pipelines.schedule import Size


def order(rank: int, size: Size) -> list[Action]:
    """The actions of one rank: those of 1F1B, each weight part as many micro-batches late as the rank's number.

    A rank further back holds fewer micro-batches under 1F1B, so it can put off as many weight parts as make it
    hold what the first rank holds.

    Source: Qi et al. 2023, Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 2.1, ZB-H1.

    Examples:
        >>> print(*order(1, Size(2, 3)))
        1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2
    """
    numbers = range(size.num_micro_batches)
    first_parts = one_f_one_b.take_turns(
        [Action(rank, "forward", number) for number in numbers],
        [Action(rank, "backward_input", number) for number in numbers],
        num_ahead=min(size.num_micro_batches, size.num_ranks - 1 - rank),
    )
    actions = []
    for action in first_parts:
        actions.append(action)
        if action.kind == "backward_input" and action.micro_batch >= rank:
            actions.append(Action(rank, "backward_weight", action.micro_batch - rank))
    put_off = numbers[max(0, len(numbers) - rank) :]
    return actions + [Action(rank, "backward_weight", number) for number in put_off]


def bubble(size: Size, time: StageTime) -> float:
    """Idle over busy time; a third of 1F1B's where the three parts take equally long and m >= p.

    Idle seconds are (p - 1) (F + I - W) for m >= p and W <= F, I. In general they are
    (p - 1) max(F, I, F + I - W) + max(0, p - m) min(F, I, W).

    Source: Qi et al. 2023, arXiv 2401.10241, table 2, for the first. The second: derived here, and equal to the
        simulated one for p <= 16, m <= 64 and drawn F, I and W (tests/plan/pipelines).

    Examples:
        >>> bubble(Size(4, 8), StageTime())
        0.125
    """
    forward_s, input_s, weight_s = time
    idle_s = (size.num_ranks - 1) * max(forward_s, input_s, forward_s + input_s - weight_s)
    idle_s += max(0, size.num_ranks - size.num_micro_batches) * min(time)
    return idle_s / (size.num_micro_batches * sum(time))


def in_flight(_rank: int, size: Size) -> int:
    """Micro-batches held at once, counted until their weight part: min(m, p) on every rank.

    What is kept between the input and the weight part is less than what the input part needs, so this bounds the
    memory from above; counted until the input part it is 1F1B's min(m, p - rank).

    Source: Qi et al. 2023, arXiv 2401.10241, section 2.1 and table 2 (peak memory p M_B, as 1F1B).
    """
    return min(size.num_micro_batches, size.num_ranks)
