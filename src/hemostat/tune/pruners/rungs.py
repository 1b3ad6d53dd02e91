"""Rungs: positions a constant factor apart, and the places that a rung has for those that go on."""

from __future__ import annotations

import math

from hemostat.errors import FieldError
from hemostat.tune.trial import History, Trial


def geometric_rungs(length: int, step: int, first: int, eta: int) -> tuple[int, ...]:
    """Positions first, first x eta, ... in multiples of `step`, then `length`.

    Source: Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020, algorithm 1.

    Args:
        length: where a run ends.
        step: distance between two evaluations.
        first: least position of the first rung; it is rounded up to an evaluation.
        eta: factor from one rung to the next, 2 or more.

    Raises:
        FieldError: `eta` is below 2.

    Examples:
        >>> geometric_rungs(length=50, step=1, first=1, eta=4), geometric_rungs(1000, 100, 50, 3)
        ((1, 4, 16, 50), (100, 300, 900, 1000))
    """
    if eta < 2:
        raise FieldError("eta", eta, "must be at least 2", "Give 3 or 4.")
    rungs = []
    at = float(max(first, step))
    while (rounded := math.ceil(at / step) * step) < length:
        rungs.append(rounded)
        at = rounded * eta
    return (*rungs, length)


def halved_rungs(length: int, step: int, least: int, eta: int) -> tuple[int, ...]:
    """Positions length, length / eta, ... down to `least`, in multiples of `step`.

    Source: Li et al., Hyperband, JMLR 2018, algorithm 1.

    Args:
        length: where a run ends.
        step: distance between two evaluations.
        least: no rung lies below it.
        eta: factor from one rung to the next, 2 or more.

    Raises:
        FieldError: `eta` is below 2.

    Examples:
        >>> halved_rungs(length=81, step=1, least=5, eta=3)
        (9, 27, 81)
    """
    if eta < 2:
        raise FieldError("eta", eta, "must be at least 2", "Give 3 or 4.")
    rungs = [length]
    share = eta
    while (at := round(length / share / step) * step) >= max(step, least) and at < rungs[0]:
        rungs.insert(0, at)
        share *= eta
    return tuple(rungs)


def among_best(history: History, trial: Trial, eta: int) -> bool:
    """Tell whether a trial is in the best 1 / eta of those that have a score where it is; the first one is."""
    board = history.at_rung(trial.position)
    places = math.ceil(len(board) / eta)
    return any(other.number == trial.number and score < math.inf for score, other in board[:places])
