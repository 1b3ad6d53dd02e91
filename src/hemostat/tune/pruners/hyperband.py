"""`hyperband`: groups that halve from different first rungs, in turn, so that slow starters have a chance."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hemostat.tune.pruners.halving import LEAST_SHARE, Bracket, promote_in
from hemostat.tune.pruners.rungs import among_best, halved_rungs
from hemostat.tune.trial import History, Trial


class HyperbandPruner:
    """Hyperband: one bracket for each rung as the first, from the lowest to the end, over and over.

    Source: Li et al., Hyperband, JMLR 2018, algorithm 1.

    Args:
        eta: one in so many goes on.

    Examples:
        >>> history = History(trials=(), sign=1, rungs=(9, 27, 81))
        >>> [HyperbandPruner().first_rung(history, number) for number in (0, 8, 9, 13, 14, 16, 17)]
        [9, 9, 27, 27, 81, 81, 9]
    """

    name = "hyperband"

    def __init__(self, eta: int = 3) -> None:
        self.eta = eta

    def rungs(self, length: int, step: int) -> tuple[int, ...]:
        """length, length / eta, ... not below a twentieth of the run."""
        return halved_rungs(length, step, math.ceil(LEAST_SHARE * length), self.eta)

    def first_rung(self, history: History, number: int) -> int:
        """That of the bracket which the number falls into."""
        brackets = self._brackets(len(history.rungs))
        return next(
            history.rungs[bracket.start] for bracket in brackets if number < bracket.first + bracket.size
        )

    def promote(self, history: History) -> Trial | None:
        """A winner of a bracket that is complete at its rung."""
        return promote_in(self._begun(history), history, self.eta)

    def keep(self, history: History, trial: Trial) -> bool:
        """Whether its bracket has no rung here, or it is in the best 1 / eta of those that have been here."""
        at_first = self.first_rung(history, trial.number)
        return trial.position < at_first or among_best(history, trial, self.eta)

    def _begun(self, history: History) -> Iterator[Bracket]:
        for bracket in self._brackets(len(history.rungs)):
            if bracket.first >= len(history.trials):
                return
            yield bracket

    def _brackets(self, num_rungs: int) -> Iterator[Bracket]:
        first = 0
        while True:
            for start in range(num_rungs):
                left = num_rungs - start  # rungs that this bracket has
                size = math.ceil(num_rungs / left * self.eta ** (left - 1))
                yield Bracket(first=first, size=size, start=start)
                first += size
