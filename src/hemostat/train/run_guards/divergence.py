"""HG002: the loss has lost for long what it had gained, or climbs without an end."""

from __future__ import annotations

from typing import Any

from hemostat.findings import Finding, Severity
from hemostat.recipe import online
from hemostat.train.run_guards.guard import Guard
from hemostat.train.update import Step

MIN_WINDOW_STEPS, MAX_WINDOW_STEPS = 10, 50


class DivergenceGuard(Guard):
    """Follows the loss in blocks of a fortieth of the run, 10 to 50 steps.

    Args:
        total_losses: losses that the run will have; 0 where it is not known.
        every_steps: steps between two of them.
    """

    def __init__(self, total_losses: int, every_steps: int = 1) -> None:
        self._every_steps = every_steps
        share = total_losses // 40 or MAX_WINDOW_STEPS
        self._divergence = online.Divergence(window=min(MAX_WINDOW_STEPS, max(MIN_WINDOW_STEPS, share)))

    def after_step(self, step: Step) -> Finding | None:
        """A finding when the run has diverged."""
        found = self._divergence.update(step.loss)
        if found is None:
            return None
        how = "climbed without a pause" if found.rising else "stayed far above its best"
        num_steps = found.num_steps * self._every_steps
        begun = max(0, step.number - num_steps)
        return Finding(
            code="HG002",
            severity=Severity.ERROR,
            message=(
                f"the loss has {how} for {num_steps} steps: {found.loss:.4g} at step {step.number}, "
                f"{found.best:.4g} at its best, {found.start:.4g} at the start."
            ),
            fix=f"Go on from a checkpoint before step {begun} with a lower lr, a longer warmup_steps or clip_norm=1.",
            where=f"step {step.number}",
            evidence={**found._asdict(), "num_steps": num_steps},
        )

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return self._divergence.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._divergence.restore(state)
