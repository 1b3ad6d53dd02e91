"""`promotion`, the default: trials wait at rungs, and the best third of each goes on from its checkpoint."""

from __future__ import annotations

import math
from typing import Final

from hemostat.tune.evidence import trusted_rung
from hemostat.tune.pruners.rungs import among_best, geometric_rungs
from hemostat.tune.trial import History, Trial

ETA: Final = 3
FIRST_SHARE: Final = (
    0.05  # of the run; below it, order at the rung and order at the end have little in common
)


class PromotionPruner:
    """Asynchronous promotion with a guard.

    The first rung lies at 5 % of the run or later, never at the untrained model. As soon as a rung is shown to mislead
    (`hemostat.tune.evidence`), new trials are started towards the next one, and two thirds of those that wait at it
    may go on; where all rungs mislead, trials run to their end.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020, algorithm 2 (promotion); the
    share of 5 %: rank correlation with the end 0.06 to 0.14 at 2 % of the run and 0.80 to 0.82 at 5 %, measured on
    LCBench and TaskSet.

    Examples:
        >>> PromotionPruner().rungs(length=50, step=1), PromotionPruner().rungs(length=1, step=1)
        ((3, 9, 27, 50), (1,))
    """

    name = "promotion"

    def rungs(self, length: int, step: int) -> tuple[int, ...]:
        """5 % of the run, then three times as far each, and the end."""
        return geometric_rungs(length, step, math.ceil(FIRST_SHARE * length), ETA)

    def first_rung(self, history: History, number: int) -> int:
        """The lowest that has not been shown to mislead."""
        return trusted_rung(history)

    def promote(self, history: History) -> Trial | None:
        """The best waiting trial among those of its rung that may go on; higher rungs come first."""
        trusted = trusted_rung(history)
        for at in reversed(history.rungs[:-1]):
            board = history.at_rung(at)
            places = len(board) // ETA if at >= trusted else 2 * len(board) // ETA
            for score, trial in board[:places]:
                if trial.outcome == "paused" and trial.position == at and score < math.inf:
                    return trial
        return None

    def keep(self, history: History, trial: Trial) -> bool:
        """Whether it is in the best third of its rung, or the rung has been shown to mislead."""
        return trial.position < trusted_rung(history) or among_best(history, trial, ETA)
