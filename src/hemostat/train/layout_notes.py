"""What a person should know of a run's layout before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hemostat.train.session import Session

MUCH_BUBBLE = 0.5  # idle over busy time


def layout_notes(session: Session) -> list[str]:
    """Sentences: what was asked for and is not so, and a pipeline that stands still for long."""
    notes, layout, num = list(session.parts.notes), session.mesh.layout, session.recipe.accumulation
    if layout.pp == 1:
        return notes
    bubble = layout.bubble(num)
    if num < layout.pp or bubble > MUCH_BUBBLE:
        notes.append(
            f"{num} micro-batch{'es' * (num > 1)} for {layout.num_stages} stages leave the pipeline idle for "
            f"{_idle(bubble):.0%} of each step (bubble {bubble:.2f} under {layout.schedule}). Give more: "
            f"accumulation={4 * layout.pp} makes it {_idle(layout.bubble(4 * layout.pp)):.0%}."
        )
    return notes


def _idle(bubble: float) -> float:
    return bubble / (1 + bubble)
