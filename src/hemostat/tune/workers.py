"""Workers: what carries out a study's orders, whether on real devices or over recorded curves."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from hemostat.tune.trial import Configuration, Outcome, Point


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of one trial.

    Attributes:
        trial: its number.
        config: what it trains with.
        start: position that it goes on from; 0 is a new start, anything else needs its checkpoint.
        until: position to reach.
        seed: seed of the trial, the same for each of its stretches.
        issued_s: the study's clock when it was given. A study that is resumed gives the orders that were under way
            once more, with the old time: whoever can find the running trial again does, all others begin again.
    """

    trial: int
    config: Configuration
    start: int
    until: int
    seed: int
    issued_s: float = 0.0


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A running trial has been evaluated.

    Attributes:
        trial: its number.
        point: what was measured.
    """

    trial: int
    point: Point


class End(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch has ended and its worker is free.

    Attributes:
        trial: its number.
        outcome: "paused" where it saved a checkpoint at `until` or before, "finished" at the end of its run,
            "stopped" when it was told to, else what went wrong.
        time_s: seconds that the stretch held its worker.
        why: one sentence about a failure.
    """

    trial: int
    outcome: Outcome
    time_s: float
    why: str = ""


class Workers(Protocol):
    """A number of places that each carry out one order at a time.

    Attributes:
        num_workers: how many.
        can_pause: a trial can leave at a rung and go on later from its checkpoint.
    """

    num_workers: int
    can_pause: bool

    def now_s(self) -> float:
        """Seconds since the study began, on a clock that never goes back and stands still while it is not running."""
        ...

    def start(self, order: Order) -> None:
        """Begin one stretch; there is a free place."""
        ...

    def wait(self, until_s: float | None) -> Progress | End | None:
        """Wait for the next thing that happens; None when the clock reached `until_s` first."""
        ...

    def stop(self, trial: int) -> None:
        """Ask a running trial to save if it can, and to leave; its `End` follows.

        Asked a second time, it is ended at once, saved or not: a cap has been reached.
        """
        ...


class Clock:
    """The seconds of a study: it goes on where the journal ends, and no change of the machine's date moves it.

    Args:
        start_s: what it shows now; `Study.clock_s` of a study that is resumed.

    Examples:
        >>> clock = Clock(3600.0)
        >>> 3600.0 <= clock.now_s() < 3601.0
        True
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._start_s = start_s - time.monotonic()

    def now_s(self) -> float:
        """Seconds since the study began, without the time in which nobody ran it."""
        return self._start_s + time.monotonic()
