"""Evidence: whether early rungs foretell the end of a run, measured while the study runs."""

from __future__ import annotations

import math
from typing import Final

from hemostat.tune.trial import History

MIN_TRIALS: Final = 6  # finished ones before a rung is judged; 15 pairs
MIN_AGREEMENT: Final = 0.6  # of pairs; a coin agrees in 0.5
CONTROL_EVERY: Final = 5


def agreement(history: History, at: int) -> float | None:
    """How often the better of two trials at a rung is the better one at the end.

    Only trials that ended their run count. Most of them were promoted, hence alike at the rung; that makes the share
    lower than it is among all, so a rung is rather mistrusted than trusted wrongly.

    Args:
        history: of the study.
        at: the rung.

    Returns:
        Share of pairs, 0 to 1; None until `MIN_TRIALS` trials ended.

    Examples:
        >>> from hemostat.tune.trial import Point, Trial
        >>> def ended(number, early, late):
        ...     points = (Point(at=1, value=early, time_s=1.0), Point(at=9, value=late, time_s=9.0))
        ...     return Trial(number=number, config={}, origin="random", points=points, outcome="finished")
        >>> trials = tuple(ended(number, number, -number) for number in range(6))
        >>> agreement(History(trials=trials, sign=1, rungs=(1, 9)), 1)
        0.0
    """
    pairs = []
    for trial in history.trials:
        early, late = history.score(trial, at), history.score(trial, history.rungs[-1])
        if trial.points and early is not None and late is not None and early < math.inf:
            pairs.append((early, late))
    if len(pairs) < MIN_TRIALS:
        return None
    agreed = compared = 0
    for index, (early, late) in enumerate(pairs):
        for other_early, other_late in pairs[:index]:
            if early != other_early and late != other_late:
                compared += 1
                agreed += (early < other_early) == (late < other_late)
    return agreed / compared if compared else None


def trusted_rung(history: History) -> int:
    """The lowest rung that has not been shown to mislead; the end of the run where all do.

    A rung that nothing is known about yet is trusted, and the controls are what it is judged by.
    """
    for at in history.rungs[:-1]:
        share = agreement(history, at)
        if share is None or share >= MIN_AGREEMENT:
            return at
    return history.rungs[-1]


def is_control(history: History, number: int) -> bool:
    """Tell whether a new trial is never stopped: one in five, until enough trials have ended to judge the rungs."""
    if number % CONTROL_EVERY != CONTROL_EVERY - 1:
        return False
    ended = sum(trial.position >= history.rungs[-1] for trial in history.trials)
    return ended < MIN_TRIALS
