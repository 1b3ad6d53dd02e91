"""What a person should know of a run's layout before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hemostat.plan import pipeline_bubble

if TYPE_CHECKING:
    from hemostat.train.session import Session

MUCH_BUBBLE = 0.5  # idle over busy time


def layout_notes(session: Session) -> list[str]:
    """Sentences: what was asked for and is not so, and a pipeline that stands still for long."""
    notes, layout, num = list(session.parts.notes), session.mesh.layout, session.recipe.accumulation
    if layout.pp == 1:
        return notes
    bubble = pipeline_bubble(layout.schedule or "1f1b", layout.pp, num, layout.stages_per_rank)
    if num < layout.pp or bubble > MUCH_BUBBLE:
        notes.append(
            f"{num} micro-batch{'es' * (num > 1)} for {layout.num_stages} stages leave the pipeline idle for "
            f"{bubble / (1 + bubble):.0%} of each step (bubble {bubble:.2f} under {layout.schedule}). Give more: "
            f"accumulation={4 * layout.pp} makes it {_idle(layout.schedule, layout.pp, layout.stages_per_rank):.0%}."
        )
    return notes


def _idle(schedule: str | None, num_ranks: int, stages_per_rank: int) -> float:
    bubble = pipeline_bubble(schedule or "1f1b", num_ranks, 4 * num_ranks, stages_per_rank)
    return bubble / (1 + bubble)
