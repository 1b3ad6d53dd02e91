"""In which order the stages of a pipeline take their micro-batches, one file per schedule, as data to look at."""

from __future__ import annotations

from typing import Final

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.pipelines import gpipe, interleaved, one_f_one_b, zero_bubble
from hemostat.plan.pipelines.action import Action, StageTime
from hemostat.plan.pipelines.check import check
from hemostat.plan.pipelines.draw import draw
from hemostat.plan.pipelines.in_flight import in_flight
from hemostat.plan.pipelines.schedule import Pattern, Pipeline, Size
from hemostat.plan.pipelines.simulate import Timeline, simulate

__all__ = [
    "PATTERNS",
    "Action",
    "Pipeline",
    "Size",
    "StageTime",
    "Timeline",
    "check",
    "draw",
    "in_flight",
    "pipeline",
    "pipeline_bubble",
    "simulate",
]

PATTERNS: Final[dict[str, Pattern]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "interleaved": interleaved,
    "zero_bubble": zero_bubble,
}
_LOOPED: Final = ("interleaved",)


def pipeline(name: str, num_ranks: int, num_micro_batches: int, stages_per_rank: int = 1) -> Pipeline:
    """The order of all passes of one optimizer step.

    Any number of micro-batches will do; fewer than ranks leave the ranks idle for most of the step.

    Args:
        name: "gpipe", "1f1b", "interleaved" or "zero_bubble".
        num_ranks: processes that a sample passes.
        num_micro_batches: parts that the samples of the step come in.
        stages_per_rank: pieces of the model on each process; above 1 for "interleaved" only.

    Raises:
        UnknownNameError: a schedule of another name.
        FieldError: a count below 1, or several stages per rank under a schedule that has one.

    Examples:
        >>> print(*pipeline("1f1b", num_ranks=2, num_micro_batches=3).ranks[0])
        0F0 0F1 0B0 0F2 0B1 0B2
    """
    size = _checked(name, Size(num_ranks, num_micro_batches, stages_per_rank))
    return Pipeline(
        name=name,
        num_stages=num_ranks * stages_per_rank,
        num_micro_batches=num_micro_batches,
        ranks=tuple(tuple(PATTERNS[name].order(rank, size)) for rank in range(num_ranks)),
    )


def pipeline_bubble(name: str, num_ranks: int, num_micro_batches: int, stages_per_rank: int = 1) -> float:
    """Idle over busy time of a schedule whose stages take equally long, by its formula.

    The forward pass and both parts of the backward pass count as equally long, and sending as free.

    Raises:
        UnknownNameError: a schedule of another name.
        FieldError: as `pipeline`.

    Examples:
        >>> pipeline_bubble("1f1b", num_ranks=4, num_micro_batches=8)
        0.375
    """
    size = _checked(name, Size(num_ranks, num_micro_batches, stages_per_rank))
    return PATTERNS[name].bubble(size, StageTime())


def _checked(name: str, size: Size) -> Size:
    if name not in PATTERNS:
        raise UnknownNameError("layout.schedule", name, PATTERNS)
    for field, value in size._asdict().items():
        if value < 1:
            raise FieldError(field, value, "must be 1 or more", f"Give {field}=1 or more.")
    if size.stages_per_rank > 1 and name not in _LOOPED:
        raise FieldError(
            "stages_per_rank",
            size.stages_per_rank,
            f"needs schedule=interleaved, not {name}",
            "Give schedule=interleaved, or stages_per_rank=1.",
        )
    return size
