"""Taken: the configurations that trials have had, spelled once each, and a draw of one that none has had."""

from __future__ import annotations

import random

from hemostat.tune.space import Space
from hemostat.tune.trial import Configuration, History

_NUM_DRAWS = 100


class Taken:
    """The keys of all trials of a history; what is kept between two calls only saves time.

    Attributes:
        keys: one for each different configuration.
        configs: of all trials, by number.
        num_kept: leading trials that were known at the last call already.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.configs: list[Configuration] = []
        self.num_kept = 0
        self._space: Space | None = None

    def update(self, space: Space, history: History) -> None:
        """Take in the trials that are new; begin again when the history does not go on from the last one."""
        configs = [trial.config for trial in history.trials]
        self.num_kept = len(self.configs)
        if space is not self._space or configs[: self.num_kept] != self.configs:
            self.keys, self.num_kept, self._space = set(), 0, space
        self.keys.update(space.key(config) for config in configs[self.num_kept :])
        self.configs = configs

    def draw(self, space: Space, rng: random.Random) -> Configuration | None:
        """A random configuration that no trial has had; None when all have been had."""
        if space.num_configs is not None and len(self.keys) >= space.num_configs:
            return None
        for _ in range(_NUM_DRAWS):
            config = space.sample(rng)
            if space.key(config) not in self.keys:
                return config
        if space.num_configs is None:
            return None
        left = [config for config in space.configs() if space.key(config) not in self.keys]
        return rng.choice(left) if left else None
