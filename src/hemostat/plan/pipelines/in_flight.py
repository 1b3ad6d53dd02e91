"""How many micro-batches a rank holds activations of at once, counted in the order of its actions."""

from __future__ import annotations

from hemostat.plan.pipelines.schedule import Pipeline


def in_flight(pipeline: Pipeline, *, until_weight: bool = True) -> tuple[int, ...]:
    """The most (stage, micro-batch) pairs per rank whose forward pass is done and whose backward pass is not.

    With several stages on a rank each pair stands for one stage of it, not for all that the rank holds.

    Args:
        pipeline: whose actions are complete (`check`).
        until_weight: where backward comes in two parts, count until the weight part; False: until the input part.

    Examples:
        >>> from hemostat.plan.pipelines import pipeline
        >>> in_flight(pipeline("1f1b", num_ranks=4, num_micro_batches=8))
        (4, 3, 2, 1)
    """
    split_end = "backward_weight" if until_weight else "backward_input"
    most = []
    for actions in pipeline.ranks:
        held = peak = 0
        for _, kind, _ in actions:
            if kind == "forward":
                held += 1
                if held > peak:
                    peak = held
            elif kind == "backward" or kind == split_end:
                held -= 1
        most.append(peak)
    return tuple(most)
