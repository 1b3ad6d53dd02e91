"""Doubts about the objective itself: a script that ignores its parameters, a direction that looks wrong."""

from __future__ import annotations

import math

from hemostat.findings import Finding, Severity
from hemostat.tune.trial import History, Point, Trial

_NUM_CURVES = 3  # that agree at two positions or more, and are no constant
_NUM_VALUES = (
    8  # that agree where there is one position, or a constant: a bad model can be stuck at one value
)
_NUM_POINTS = 3  # of a curve that tells whether it gets better
_NUM_WORSE = 3  # curves


class Sameness:
    """Whether all trials have given the same numbers so far, whatever their parameters."""

    def __init__(self) -> None:
        self._first: dict[int, float] = {}
        self._agree: dict[int, int] = {}
        self._differ = False

    def measured(self, trial: Trial, point: Point) -> None:
        """A trial has been evaluated; the untrained model says nothing about parameters."""
        if self._differ or point.at <= 0 or not math.isfinite(point.value):
            return
        if point.at not in self._first:
            self._first[point.at] = point.value
            self._agree.setdefault(trial.number, 0)
        elif self._first[point.at] != point.value:
            self._differ = True
        else:
            self._agree[trial.number] = self._agree.get(trial.number, 0) + 1

    @property
    def reason(self) -> str | None:
        """Why the study ends; None while it goes on."""
        if self._differ:
            return None
        curves = sum(count >= 2 for count in self._agree.values()) + 1
        moved = len(set(self._first.values())) > 1
        if not (moved and curves >= _NUM_CURVES) and sum(map(bool, self._agree.values())) + 1 < _NUM_VALUES:
            return None
        return (
            f"{len(self._agree)} trials with different parameters gave exactly the same values: the script ignores "
            "its parameters. Check that it reads every parameter of the space."
        )


def doubts_direction(history: History) -> Finding | None:
    """Ask about a direction that looks wrong: every value negative under "max", or every curve getting worse.

    Args:
        history: the trials so far.

    Returns:
        None where nothing looks wrong, or too little is known.

    Examples:
        >>> points = tuple(Point(at=at, value=2.0 - at / 10, time_s=1.0 * at) for at in (1, 2, 3))
        >>> trials = tuple(Trial(number=n, config={}, origin="random", points=points) for n in range(3))
        >>> doubts_direction(History(trials=trials, sign=-1, rungs=(3,))).fix
        "Set direction='min' if a lower value is better; otherwise go on."
        >>> doubts_direction(History(trials=trials, sign=1, rungs=(3,)))
    """
    curves = [curve for trial in history.trials if len(curve := _finite(trial)) >= 1]
    if len(curves) < _NUM_WORSE:
        return None
    word, other, better = ("max", "min", "a lower") if history.sign < 0 else ("min", "max", "a higher")
    long = [curve for curve in curves if len(curve) >= _NUM_POINTS]
    if history.sign < 0 and all(value < 0 for curve in curves for value in curve):
        what = "every value is negative"
    elif len(long) >= _NUM_WORSE and all(history.sign * (curve[-1] - curve[0]) > 0 for curve in long):
        what = f"every trial gets {'lower' if history.sign < 0 else 'higher'} as it trains"
    else:
        return None
    return Finding(
        code="HT001",
        severity=Severity.WARNING,
        message=f"direction={word!r}, but {what}, in {len(curves)} trials.",
        fix=f"Set direction={other!r} if {better} value is better; otherwise go on.",
        evidence={"first": curves[0][0], "last": curves[0][-1]},
    )


def _finite(trial: Trial) -> list[float]:
    return [point.value for point in trial.points if math.isfinite(point.value)]
