"""Workers: what carries out a study's orders, whether on real devices or over recorded curves."""

from __future__ import annotations

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
    """

    trial: int
    config: Configuration
    start: int
    until: int
    seed: int


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
        """Ask a running trial to save if it can, and to leave; its `End` follows."""
        ...
