"""`halving`: groups of trials that all wait at a rung until the last one is there, then the best 1 / eta go on."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from hemostat.tune.failures import can_retry
from hemostat.tune.pruners.rungs import among_best, halved_rungs
from hemostat.tune.trial import History, Trial

LEAST_SHARE = 0.05  # of the run: earlier values say nothing about late ones (measured: docs/log.md)


class Bracket(msgspec.Struct, frozen=True, kw_only=True):
    """Trials that are compared with each other only.

    Attributes:
        first: number of its first trial.
        size: how many trials.
        start: index of its first rung.
    """

    first: int
    size: int
    start: int


class HalvingPruner:
    """Synchronous successive halving; workers that would wait begin the next group.

    Source: Jamieson and Talwalkar, Non-stochastic Best Arm Identification, AISTATS 2016, figure 1.

    Args:
        eta: one in so many goes on.

    Examples:
        >>> HalvingPruner().rungs(length=81, step=1)
        (9, 27, 81)
    """

    name = "halving"

    def __init__(self, eta: int = 3) -> None:
        self.eta = eta

    def rungs(self, length: int, step: int) -> tuple[int, ...]:
        """length, length / eta, ... not below a twentieth of the run."""
        return halved_rungs(length, step, math.ceil(LEAST_SHARE * length), self.eta)

    def first_rung(self, history: History, number: int) -> int:
        """The lowest."""
        return history.rungs[0]

    def promote(self, history: History) -> Trial | None:
        """A winner of a group that is complete at its rung."""
        size = self.eta ** (len(history.rungs) - 1)
        count = math.ceil(len(history.trials) / size)
        groups = (Bracket(first=number * size, size=size, start=0) for number in range(count))
        return promote_in(groups, history, self.eta)

    def keep(self, history: History, trial: Trial) -> bool:
        """Whether it is in the best 1 / eta of those that have been here: a trial that cannot pause cannot wait."""
        return among_best(history, trial, self.eta)


def promote_in(brackets: Iterator[Bracket], history: History, eta: int) -> Trial | None:
    """The next trial to promote, from the first bracket that has one."""
    ends = {
        trial.number
        for score, trial in history.at_rung(history.rungs[-1])
        if score < math.inf and not trial.control
    }
    for bracket in brackets:
        numbers = range(bracket.first, bracket.first + bracket.size)
        if numbers.stop > len(history.trials) or any(number in ends for number in numbers):
            continue  # still filling, or its winner is through
        trial = _winner(bracket, history, eta)
        if trial is not None:
            return trial
    return None


def _winner(bracket: Bracket, history: History, eta: int) -> Trial | None:
    members = [history.trials[number] for number in range(bracket.first, bracket.first + bracket.size)]
    for at in history.rungs[bracket.start : -1]:
        scores = [(history.score(trial, at), trial) for trial in members]
        if any(score is None and not _is_lost(trial) for score, trial in scores):
            return None  # somebody is still on the way
        ranked = sorted(
            (score, trial.number) for score, trial in scores if score is not None and score < math.inf
        )
        places = max(1, len(members) // eta)
        members = [history.trials[number] for _, number in ranked[:places]]
        for trial in members:
            if trial.outcome == "paused" and trial.position == at:
                return trial
    return None


def _is_lost(trial: Trial) -> bool:
    """It will never reach its rung."""
    return trial.outcome not in (None, "paused") and not can_retry(trial)
