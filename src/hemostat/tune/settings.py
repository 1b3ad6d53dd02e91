"""Settings: what a study is asked, as its journal keeps it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.tune.budget import Budget
from hemostat.tune.trial import Configuration


class Given(Config, frozen=True, kw_only=True):
    """A configuration of the first round.

    Attributes:
        origin: who proposed it: "recipe", "neighbour", "scaling law", "given".
        config: parameter to value.
    """

    origin: str
    config: Configuration


class Settings(Config, frozen=True, kw_only=True):
    """What a study is asked.

    Attributes:
        length: where a run ends, in the study's unit of position.
        step: distance between two evaluations, in the same unit.
        direction: whether a low or a high value of the objective is better.
        seed: of everything that is drawn.
        can_pause: the workers' trials can leave at a rung and go on later.
        first_round: tried before anything else, in this order.
        budget: the caps.
        about: what the caller needs to build the study again: its space, its sampler's name, its command.
    """

    length: int
    step: int
    direction: Literal["min", "max"] = "min"
    seed: int = 0
    can_pause: bool = True
    first_round: tuple[Given, ...] = ()
    budget: Budget = Budget()
    about: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.step < 1:
            raise FieldError(
                "step", self.step, "must be at least 1", "Give the distance between two evaluations."
            )
        if self.length < self.step:
            fix = "Evaluate at least once in a run."
            raise FieldError("length", self.length, f"must be at least one step ({self.step})", fix)

    @property
    def sign(self) -> int:
        """1 when the objective is minimised, -1 when it is maximised."""
        return 1 if self.direction == "min" else -1
