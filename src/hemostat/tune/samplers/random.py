"""Random search: every configuration is equally likely; the comparison that each other sampler has to win."""

from __future__ import annotations

import random

from hemostat.tune.samplers.taken import Taken
from hemostat.tune.space import Space
from hemostat.tune.trial import Configuration, History


class Random:
    """Draws evenly from the space, without repeats.

    Examples:
        >>> from hemostat.tune.space import Choice
        >>> space, history = Space((Choice("batch", (32, 64)),)), History(trials=(), sign=1, rungs=(1,))
        >>> Random().propose(space, history, random.Random(1))
        {'batch': 32}
    """

    name = "random"

    def __init__(self) -> None:
        self._taken = Taken()

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """A random configuration that no trial has had; None when all have been had."""
        self._taken.update(space, history)
        return self._taken.draw(space, rng)
