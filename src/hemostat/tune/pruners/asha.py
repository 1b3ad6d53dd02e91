"""`asha`: a trial goes on as soon as it is in the best 1 / eta of its rung, whoever else is still running."""

from __future__ import annotations

import math

from hemostat.tune.pruners.rungs import geometric_rungs
from hemostat.tune.trial import History, Trial


class AshaPruner:
    """Asynchronous successive halving.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020, algorithm 2, for trials that
    pause; the rule for trials that do not is that of Ray Tune's AsyncHyperBandScheduler, whose defaults these are.

    Args:
        eta: one in so many goes on.
        grace: evaluations before the first rung.

    Examples:
        >>> AshaPruner().rungs(length=50, step=1)
        (1, 4, 16, 50)
    """

    name = "asha"

    def __init__(self, eta: int = 4, grace: int = 1) -> None:
        self.eta = eta
        self.grace = grace

    def rungs(self, length: int, step: int) -> tuple[int, ...]:
        """grace, grace x eta, ... evaluations, then the end."""
        return geometric_rungs(length, step, self.grace * step, self.eta)

    def first_rung(self, history: History, number: int) -> int:
        """The lowest."""
        return history.rungs[0]

    def promote(self, history: History) -> Trial | None:
        """The best paused trial in the best 1 / eta of its rung; higher rungs come first."""
        for at in reversed(history.rungs[:-1]):
            board = history.at_rung(at)
            for score, trial in board[: len(board) // self.eta]:
                if trial.outcome == "paused" and trial.position == at and score < math.inf:
                    return trial
        return None

    def keep(self, history: History, trial: Trial) -> bool:
        """Whether it is at least as good as the quantile 1 / eta of those that passed the rung before it."""
        score = history.score(trial, trial.position)
        others = [other for other, rival in history.at_rung(trial.position) if rival.number != trial.number]
        if score is None or not others:
            return True
        return score < math.inf and score <= _quantile(others, 1 / self.eta)


def _quantile(ordered: list[float], share: float) -> float:
    """Between two values by the line through them, as numpy does; infinite as soon as one that counts is."""
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    if math.isinf(above) or below == above:
        return above
    return below + (above - below) * (place - math.floor(place))
