"""Pruner: what every way of deciding which trials go on has in common."""

from __future__ import annotations

from typing import Protocol

from hemostat.tune.trial import History, Trial


class Pruner(Protocol):
    """A way of deciding how far each trial runs.

    A trial runs to a rung and pauses there with its checkpoint; it goes on only when it is promoted. A trial of a
    script that cannot be resumed does not pause: at each rung it is asked for whether to go on.

    Attributes:
        name: as the user writes it.
    """

    name: str

    def rungs(self, length: int, step: int) -> tuple[int, ...]:
        """Positions at which trials are compared.

        Args:
            length: where a run ends.
            step: distance between two evaluations, both in the study's unit of position.

        Returns:
            Increasing multiples of `step`, the last one `length`.
        """
        ...

    def first_rung(self, history: History, number: int) -> int:
        """The position that the new trial of that number is started towards."""
        ...

    def promote(self, history: History) -> Trial | None:
        """The paused trial that should go on to its next rung now; None when none has earned it."""
        ...

    def keep(self, history: History, trial: Trial) -> bool:
        """Tell whether a trial that has just passed a rung and cannot be paused may go on."""
        ...
