"""Is this loss a spike? Judged against the median and the scatter of the losses just before it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from hemostat.recipe.online.spread import robust_spread

MIN_VALUES = 16
LEAST_SCATTER = 0.02  # of the median: a curve without noise has no scatter, and no spikes of a few percent


class Spike(NamedTuple):
    """A loss that does not belong to those before it.

    Attributes:
        loss: that loss.
        usual_loss: the median of the window.
        deviations: how far above it, in standard deviations of the window.
        grad_deviations: the same of the gradient norm; None where it is not known.
    """

    loss: float
    usual_loss: float
    deviations: float
    grad_deviations: float | None


class Spikes:
    """Finds loss spikes, fed once a step.

    A spike is the highest loss of the window, lies `deviations` above its median, and comes with a gradient norm
    that is `deviations / 2` above its own median. A loss three times as far out counts whatever the gradient
    norm says. After a spike nothing is said for a window: the steps after it belong to it.

    Args:
        window: losses that a new one is compared with.
        deviations: standard deviations, by the MAD, above the median.

    Examples:
        >>> spikes = Spikes()
        >>> calm = [spikes.update(2.0 + 0.01 * (step % 5), grad_norm=1.0 + 0.1 * (step % 3)) for step in range(64)]
        >>> any(calm)
        False
        >>> round(spikes.update(9.0, grad_norm=40.0).usual_loss, 2)
        2.02

    Source: median and MAD as in Hampel 1974 (JASA 69) and Leys et al. 2013 (J. Exp. Soc. Psychol. 49); thresholds
        measured by the false alarms of tests/recipe/online/test_spikes.py.
    """

    def __init__(self, window: int = 64, deviations: float = 8.0) -> None:
        self._window = window
        self._deviations = deviations
        self._losses: deque[float] = deque(maxlen=window)
        self._norms: deque[float] = deque(maxlen=window)
        self._quiet_steps = 0

    def update(self, loss: float, grad_norm: float | None = None) -> Spike | None:
        """Take one step; what is not finite is passed over.

        Args:
            loss: of the step.
            grad_norm: of the step, before clipping.
        """
        if not math.isfinite(loss):
            return None
        spike = None
        if self._quiet_steps:
            self._quiet_steps -= 1
        elif len(self._losses) >= MIN_VALUES and loss > max(self._losses):
            spike = self._judge(loss, grad_norm)
            self._quiet_steps = self._window if spike else 0
        self._losses.append(loss)
        if grad_norm is not None and math.isfinite(grad_norm):
            self._norms.append(grad_norm)
        return spike

    def _judge(self, loss: float, grad_norm: float | None) -> Spike | None:
        deviations = _deviations(loss, self._losses)
        grad = None
        if grad_norm is not None and len(self._norms) >= MIN_VALUES:
            grad = _deviations(grad_norm, self._norms)
        joined = grad is None or grad >= self._deviations / 2 or deviations >= 3 * self._deviations
        if deviations < self._deviations or not joined:
            return None
        return Spike(loss, robust_spread(self._losses).middle, deviations, grad)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on: plain numbers."""
        return {"losses": [*self._losses], "norms": [*self._norms], "quiet_steps": self._quiet_steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._losses.extend(state["losses"])
        self._norms.extend(state["norms"])
        self._quiet_steps = int(state["quiet_steps"])


def _deviations(value: float, values: Iterable[float]) -> float:
    """How far a value lies above the median of others, in their standard deviations.

    Source: the modified z-score of Iglewicz & Hoaglin 1993, How to Detect and Handle Outliers, section 3.3.
    """
    spread = robust_spread(values)
    scatter = max(spread.deviation, LEAST_SCATTER * abs(spread.middle))
    return (value - spread.middle) / scatter if scatter else math.inf
