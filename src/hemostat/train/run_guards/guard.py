"""`Guard`: what looks at a run after each step and evaluation, and says when something is wrong."""

from __future__ import annotations

from typing import Any, Protocol

from hemostat.findings import Finding
from hemostat.train.update import Step


class Guard(Protocol):
    """One guard; it is asked on all ranks with equal values, so that all of them say the same.

    Its state is plain numbers and goes into the checkpoints.
    """

    def after_step(self, step: Step) -> Finding | None:
        """Look at a step."""
        return None

    def after_evaluation(self, step: Step, value: float, error: float | None) -> Finding | None:
        """Look at an evaluation.

        Args:
            step: the latest one.
            value: the monitored metric.
            error: its standard error; None where it is not known.
        """
        return None

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""


class RankGuard(Guard, Protocol):
    """A guard of what must be equal on all ranks; they are compared now and then."""

    def mine(self, step: Step) -> Any:
        """What this rank tells the others, as JSON can hold it."""

    def compare(self, said: list[Any], step: Step) -> Finding | None:
        """Judge what the ranks told.

        Args:
            said: by rank; one entry where all said the same.
            step: the latest one.
        """
