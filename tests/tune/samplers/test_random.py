"""Random search is even."""

from __future__ import annotations

import random
from collections import Counter

from hemostat.tune.samplers.random import Random
from hemostat.tune.space import Choice, Space
from hemostat.tune.trial import History


def test_every_configuration_is_as_likely():
    space, history = Space((Choice("batch", (8, 16, 32)),)), History(trials=(), sign=1, rungs=(1,))
    counts = Counter(Random().propose(space, history, random.Random(seed))["batch"] for seed in range(600))
    assert min(counts.values()) > 150
