"""Trial, Point and History: what a study knows when it decides; samplers and pruners read nothing else."""

from __future__ import annotations

import bisect
import math
from functools import cached_property
from typing import Any, Literal

import msgspec

Configuration = dict[str, Any]
Outcome = Literal[
    "paused",  # waits at a rung with a checkpoint; may be promoted
    "finished",  # reached the end of its run
    "stopped",  # ended before its end by the study; it cannot go on
    "nan",
    "diverged",
    "out_of_memory",
    "timeout",
    "crash",
    "preempted",
]
TEACHES: frozenset[Outcome] = frozenset({"nan", "diverged", "out_of_memory"})  # the parameters are to blame
RETRIED: frozenset[Outcome] = frozenset({"timeout", "crash", "preempted"})  # the machine may be to blame


class Point(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One evaluation of a trial.

    Attributes:
        at: position in the run, in the study's own unit (samples for a hemostat run, steps or epochs for a script);
            0 is the untrained model.
        value: the objective as it was measured; NaN and infinities are kept as they are.
        time_s: seconds that the trial itself had run by then, without its pauses.
    """

    at: int
    value: float
    time_s: float


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration and what became of it.

    Attributes:
        number: 0, 1, ... in the order of their start.
        config: parameter to value; parameters that are inactive are absent.
        origin: who proposed it: "recipe", "neighbour", "scaling law", "given", "control", or a sampler's name.
        control: is never stopped before its end, so that the study can see what stopping would have lost.
        points: its evaluations, in the order of their positions.
        until: position that it was last told to reach.
        outcome: how its last stretch ended; None while it runs.
        time_s: seconds of its stretches in all, failures included.
        num_failures: stretches that ended in one of `RETRIED`.
        why: one sentence about a failure, such as the memory that was asked for.
    """

    number: int
    config: Configuration
    origin: str
    control: bool = False
    points: tuple[Point, ...] = ()
    until: int = 0
    outcome: Outcome | None = None
    time_s: float = 0.0
    num_failures: int = 0
    why: str = ""

    @property
    def position(self) -> int:
        """Where its last evaluation was; 0 before the first."""
        return self.points[-1].at if self.points else 0


class History(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All trials, as a sampler or a pruner may see them.

    Attributes:
        trials: by number.
        sign: 1 when the objective is minimised, -1 when it is maximised.
        rungs: positions at which trials are compared; the last one is the end of the run.
    """

    trials: tuple[Trial, ...]
    sign: int
    rungs: tuple[int, ...]

    def score(self, trial: Trial, at: int) -> float | None:
        """The objective at a position, lower is better; infinite where it was no number or the trial failed on it.

        Runs are compared at one position only: a cosine schedule that is half way is not the end of a shorter one.
        A run that ended by itself before the position, by its own early stopping, keeps its last value.

        Returns:
            None where the trial has not been evaluated at that position.

        Examples:
            >>> trial = Trial(number=0, config={}, origin="random", points=(Point(at=10, value=0.9, time_s=1.0),))
            >>> history = History(trials=(trial,), sign=-1, rungs=(10, 30))
            >>> history.score(trial, 10), history.score(trial, 30)
            (-0.9, None)
        """
        for point in reversed(trial.points):
            if point.at == at or (point.at < at and trial.outcome == "finished"):
                return self.sign * point.value if math.isfinite(point.value) else math.inf
            if point.at < at:
                break
        return math.inf if trial.outcome in TEACHES else None

    def at_rung(self, at: int) -> list[tuple[float, Trial]]:
        """Every trial that has a score at a position, best first; equal scores in the order of their numbers."""
        board = self._boards[at] if at in self._boards else self._board(at)
        if self.trials and self.trials[-1].number >= len(
            self.trials
        ):  # a part of a study: numbers are no places
            by_number = {trial.number: trial for trial in self.trials}
            return [(score, by_number[number]) for score, number in board]
        return [(score, self.trials[number]) for score, number in board]

    def put(self, trial: Trial) -> History:
        """The history with one more trial, or with a newer state of a trial that it has; all trials must be there.

        Examples:
            >>> history = History(trials=(), sign=1, rungs=(1, 2)).put(Trial(number=0, config={}, origin="random"))
            >>> len(history.put(history.trials[0]).trials)
            1
        """
        number = trial.number
        before = self.trials[number] if number < len(self.trials) else None
        after = History(
            trials=(*self.trials[:number], trial, *self.trials[number + 1 :]),
            sign=self.sign,
            rungs=self.rungs,
        )
        after.__dict__["_boards"] = self._boards | {
            at: after._moved(self._boards[at], before, trial, at) for at in self._changed(before, trial)
        }
        return after

    @cached_property
    def _boards(self) -> dict[int, list[tuple[float, int]]]:
        """Score and number at each rung, sorted; kept from one history to the next, for they are asked for often."""
        return {at: self._board(at) for at in self.rungs}

    def _board(self, at: int) -> list[tuple[float, int]]:
        return sorted(
            (score, trial.number) for trial in self.trials if (score := self.score(trial, at)) is not None
        )

    def _changed(self, before: Trial | None, trial: Trial) -> list[int]:
        """The rungs where a trial may have another score than before."""
        same = before is not None and before.outcome == trial.outcome != "finished"
        if before is None or not same or len(trial.points) < len(before.points):
            return list(self.rungs)
        added = {point.at for point in trial.points[len(before.points) :]}
        return [at for at in self.rungs if at in added]

    def _moved(
        self, board: list[tuple[float, int]], before: Trial | None, trial: Trial, at: int
    ) -> list[tuple[float, int]]:
        old = None if before is None else self.score(before, at)
        new = self.score(trial, at)
        if old == new:
            return board
        moved = list(board)
        if old is not None:
            del moved[bisect.bisect_left(moved, (old, trial.number))]
        if new is not None:
            bisect.insort(moved, (new, trial.number))
        return moved
