"""`none`: every trial runs to its end."""

from __future__ import annotations

from hemostat.tune.trial import History, Trial


class NonePruner:
    """Stops nothing: for objectives whose early values say nothing about the late ones.

    Examples:
        >>> NonePruner().rungs(length=100, step=10)
        (100,)
    """

    name = "none"

    def rungs(self, length: int, step: int) -> tuple[int, ...]:
        """The end alone."""
        return (length,)

    def first_rung(self, history: History, number: int) -> int:
        """The end."""
        return history.rungs[-1]

    def promote(self, history: History) -> Trial | None:
        """None: nothing waits."""
        return None

    def keep(self, history: History, trial: Trial) -> bool:
        """True."""
        return True
