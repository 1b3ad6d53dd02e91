"""A pipeline as a picture of text: one row per rank, one column per slot of time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hemostat.plan.pipelines.action import LETTERS, Action, StageTime
from hemostat.plan.pipelines.schedule import Pipeline
from hemostat.plan.pipelines.simulate import simulate


def draw(
    pipeline: Pipeline, times: Sequence[StageTime] | None = None, *, send_s: float = 0.0, slot_s: float = 1.0
) -> str:
    """What runs in the middle of each slot: F forward, B backward, I and W its parts, and which micro-batch.

    A dot is idle time, and dashes go on with what began before. Where ranks have several stages, the number of
    the stage stands in front.

    Args:
        pipeline: what is drawn.
        times: per stage; None: a second for each part, so two for a whole backward pass.
        send_s: seconds between ranks.
        slot_s: seconds of a column.

    Raises:
        FieldError: as `simulate`.

    Examples:
        >>> from hemostat.plan.pipelines import pipeline
        >>> print(draw(pipeline("1f1b", num_ranks=2, num_micro_batches=3)))
        rank 0  F0 F1 .  .  B0--- F2 B1--- .  B2---
        rank 1  .  F0 B0--- F1 B1--- F2 B2---
    """
    line = simulate(pipeline, times, send_s)
    labels = [[_label(action, pipeline) for action in actions] for actions in pipeline.ranks]
    width = max((len(label) for row in labels for label in row), default=1)
    margin = len(f"rank {pipeline.num_ranks - 1}")
    rows = []
    for rank, row in enumerate(labels):
        cells = ""
        slot = 0
        for label, begin_s, end_s in zip(row, line.begin_s[rank], line.end_s[rank], strict=True):
            first, after = (math.ceil(second / slot_s - 0.5) for second in (begin_s, end_s))
            if first == after:
                continue  # over before the middle of a slot
            cells += f"{'.':{width}} " * (first - slot)
            filler = "-" if after - first > 1 else " "
            cells += label.ljust((after - first) * (width + 1) - 1, filler) + " "
            slot = after
        rows.append(f"{f'rank {rank}':{margin}}  {cells}".rstrip())
    return "\n".join(rows)


def _label(action: Action, pipeline: Pipeline) -> str:
    if pipeline.num_stages > pipeline.num_ranks:
        return str(action)
    return f"{LETTERS[action.kind]}{action.micro_batch}"
