"""Has training diverged? The loss is far above its early best for long, or it climbs without an end."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from hemostat.recipe.online.spread import robust_spread

RISING_BLOCKS = 6
MARGIN_DEVIATIONS = 6.0
MARGIN_SHARE = 0.2
LOST_SHARE = 0.5


class Diverged(NamedTuple):
    """A run that has lost what it had gained.

    Attributes:
        loss: median of the last block.
        best: lowest median of a block.
        start: median of the first block.
        num_steps: length of what was judged.
        rising: it was found because it climbs from block to block.
    """

    loss: float
    best: float
    start: float
    num_steps: int
    rising: bool


class Divergence:
    """Follows the medians of blocks of losses, fed once a step.

    Diverged means one of two things. The medians of `patience` blocks in a row lie above the best one by half of
    what had been gained since the start. Or six medians in a row rise, each above the one before. Either way the
    last one lies above the best by at least 6 standard deviations of a single loss in the best block, and by at
    least 0.2 times its size. It is said once; a block back below the line makes it possible again.

    Args:
        window: steps of a block.
        patience: blocks in a row.

    Examples:
        >>> divergence = Divergence(window=10, patience=3)
        >>> falls = [divergence.update(5.0 - 0.05 * step) for step in range(50)]
        >>> any(falls)
        False
        >>> stays_high = [divergence.update(9.0) for step in range(50)]
        >>> [step for step, found in enumerate(stays_high) if found]
        [29]

    Source: blocks and thresholds are practice, measured by the false alarms of
        tests/recipe/online/test_divergence.py; six independent medians rise in a row by chance once in 6! = 720.
    """

    def __init__(self, window: int = 50, patience: int = 5) -> None:
        self._window = window
        self._patience = patience
        self._block: list[float] = []
        self._medians: list[float] = []
        self._start = math.nan
        self._best = math.inf
        self._scatter = 0.0
        self._high_blocks = 0
        self._said = False

    def update(self, loss: float) -> Diverged | None:
        """Take one step; what is not finite is passed over.

        Args:
            loss: of the step.
        """
        if not math.isfinite(loss):
            return None
        self._block.append(loss)
        if len(self._block) < self._window:
            return None
        found = self._judge()
        self._block.clear()
        return found

    def _judge(self) -> Diverged | None:
        level = median(self._block)
        self._start = level if math.isnan(self._start) else self._start
        if level < self._best:
            self._best, self._scatter = level, robust_spread(self._block).deviation
        self._medians = [*self._medians[1 - RISING_BLOCKS :], level]
        margin = max(MARGIN_DEVIATIONS * self._scatter, MARGIN_SHARE * abs(self._best))
        lost = max(margin, LOST_SHARE * (self._start - self._best))
        self._high_blocks = self._high_blocks + 1 if level > self._best + lost else 0
        climbs = len(self._medians) == RISING_BLOCKS and all(
            low < high for low, high in pairwise(self._medians)
        )
        rising = climbs and level > self._best + margin
        if not rising and self._high_blocks < self._patience:
            self._said = self._said and level > self._best + margin
            return None
        if self._said:
            return None
        self._said = True
        blocks = max(RISING_BLOCKS if rising else 0, self._high_blocks)
        return Diverged(level, self._best, self._start, blocks * self._window, rising)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on: plain numbers; None before the first block."""
        started = not math.isnan(self._start)
        return {
            "block": [*self._block],
            "medians": self._medians,
            "start": self._start if started else None,
            "best": self._best if started else None,
            "scatter": self._scatter,
            "high_blocks": self._high_blocks,
            "said": self._said,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`; a block that was begun under another window starts anew."""
        self._block = [float(loss) for loss in state["block"]][: self._window - 1]
        self._medians = [float(level) for level in state["medians"]]
        if state["start"] is not None:
            self._start, self._best = float(state["start"]), float(state["best"])
        self._scatter, self._high_blocks = float(state["scatter"]), int(state["high_blocks"])
        self._said = bool(state["said"])
