"""Sampler: what every way of choosing the next configuration has in common."""

from __future__ import annotations

import random
from typing import Protocol

from hemostat.tune.space import Space
from hemostat.tune.trial import Configuration, History


class Sampler(Protocol):
    """A way of choosing configurations.

    Attributes:
        name: as the user writes it.
    """

    name: str

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """Choose a configuration that no trial has had.

        The answer follows from the arguments alone, so that a study resumed from its journal decides as the
        undisturbed one would; what is kept between calls may only save time.

        Args:
            space: what may be chosen.
            history: all trials, running ones included.
            rng: seeded by the study from its seed and the number of the trial.

        Returns:
            None when the space has no configuration left.
        """
        ...
