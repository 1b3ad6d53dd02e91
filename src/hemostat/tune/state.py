"""State: what a study knows, as its journal says it; every entry is applied the same way when it is read again."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec

from hemostat.tune.doubts import Sameness
from hemostat.tune.failures import Streak
from hemostat.tune.journal import (
    AnyEntry,
    Began,
    Ended,
    Extended,
    Finished,
    Judged,
    Measured,
    Ordered,
)
from hemostat.tune.settings import Settings
from hemostat.tune.spending import Spending
from hemostat.tune.trial import RETRIED, History, Point, Trial
from hemostat.tune.workers import Order


class State:
    """The sum of the entries so far.

    Attributes:
        settings: what was asked; its budget is the newest.
        history: all trials.
        clock_s: the latest clock in the journal; it never goes back.
        running: the orders under way, by trial.
        verdicts: what each running trial was told last, and at which position.
        spending: the account.
        streak: identical failures in a row.
        sameness: whether the parameters make any difference.
        ending: why the study ended; None while it goes on.
        due: trials that are not running and that the machine failed, or that left before their order was done.
        unread: something was learned since the stopping rule was asked last.

    Args:
        began: the first entry.
    """

    def __init__(self, began: Began) -> None:
        self.settings: Settings = began.settings
        self.history = History(trials=(), sign=began.settings.sign, rungs=began.rungs)
        self.clock_s = began.at_s
        self.running: dict[int, Order] = {}
        self.verdicts: dict[int, tuple[str, int]] = {}
        self.spending = Spending(began.settings.budget)
        self.streak = Streak()
        self.sameness = Sameness()
        self.ending: str | None = None
        self.due: dict[int, Order] = {}
        self.unread = True

    @classmethod
    def of(cls, entries: Iterable[AnyEntry]) -> State:
        """The state after all of a journal's entries; a report needs nothing else of a study.

        Raises:
            TypeError: the first entry is no study.

        Examples:
            >>> settings = Settings(length=9, step=1)
            >>> State.of([Began(at_s=0.0, settings=settings, rungs=(3, 9))]).history.rungs
            (3, 9)
        """
        first, *rest = entries
        if not isinstance(first, Began):
            raise TypeError(f"a journal begins with a study, not with {type(first).__name__}")
        state = cls(first)
        for entry in rest:
            state.apply(entry)
        return state

    def apply(self, entry: AnyEntry) -> None:
        """Take in one more entry."""
        self.clock_s = max(self.clock_s, entry.at_s)
        match entry:
            case Ordered():
                self._ordered(entry)
            case Measured():
                self._measured(entry)
            case Judged():
                self.verdicts[entry.trial] = (entry.verdict, self.history.trials[entry.trial].position)
                if entry.verdict != "go":
                    self.spending.asked(entry.trial, entry.at_s)
            case Ended():
                self._ended(entry)
            case Extended():
                self.settings = msgspec.structs.replace(self.settings, budget=entry.budget)
                self.spending.budget = entry.budget
                self.ending = None
                self.unread = True
            case Finished():
                self.ending = entry.reason

    def trial_seed(self, trial: int) -> int:
        """The seed of a trial, the same for each of its stretches."""
        return random.Random(f"{self.settings.seed}:{trial}:seed").randrange(1 << 31)

    def _ordered(self, entry: Ordered) -> None:
        trials = self.history.trials
        if entry.trial == len(trials):
            trial = Trial(
                number=entry.trial,
                config=entry.config or {},
                origin=entry.origin,
                control=entry.control,
                until=entry.until,
            )
        else:
            trial = msgspec.structs.replace(trials[entry.trial], until=entry.until, outcome=None, why="")
        order = Order(
            trial=entry.trial,
            config=trial.config,
            start=entry.start,
            until=entry.until,
            seed=self.trial_seed(entry.trial),
            issued_s=entry.at_s,
        )
        self.running[entry.trial] = order
        self.due.pop(entry.trial, None)
        self.spending.started(order, trial)
        self.history = self.history.put(trial)
        self.unread = False  # the stopping rule was asked before

    def _measured(self, entry: Measured) -> None:
        trial = self.history.trials[entry.trial]
        point = Point(at=entry.at, value=float(entry.value), time_s=entry.time_s)
        self.spending.measured(trial, point)
        self.sameness.measured(trial, point)
        self.streak.measured(point)
        self.history = self.history.put(msgspec.structs.replace(trial, points=(*trial.points, point)))
        self.unread = True

    def _ended(self, entry: Ended) -> None:
        order = self.running.pop(entry.trial)
        verdict, _ = self.verdicts.pop(entry.trial, ("", 0))
        trial = self.history.trials[entry.trial]
        trial = msgspec.structs.replace(
            trial,
            outcome=entry.outcome,
            time_s=trial.time_s + entry.time_s,
            num_failures=trial.num_failures + (entry.outcome in RETRIED),
            why=entry.why,
        )
        self.spending.ended(entry.trial, entry.time_s, whole=verdict in ("", "go"))
        self.streak.ended(trial)
        if entry.outcome in RETRIED:
            self.due[entry.trial] = order
        elif entry.outcome == "paused" and trial.position < order.until:
            self.due[entry.trial] = msgspec.structs.replace(order, start=trial.position)
        self.history = self.history.put(trial)
        self.unread = True
