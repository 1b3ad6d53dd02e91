"""Has overfitting begun? The validation metric turns, beyond its noise, while the training loss still falls."""

from __future__ import annotations

import math
from statistics import median
from typing import Any, NamedTuple

from hemostat.recipe.online.spread import robust_spread

MIN_EVALS = 6
SMOOTHED_EVALS = 3
NOISE_EVALS = 20
WIGGLES = 5.0
BAD_EVALS = 3
SURE_SHARE = 0.1


class Onset(NamedTuple):
    """Where overfitting began.

    Attributes:
        samples: position of the best evaluation, by the median of three.
        best: the metric there.
        value: the metric now, both by the median of three.
        noise: the change that chance alone would explain.
        train_before: training loss up to the best evaluation.
        train_now: training loss up to this one.
    """

    samples: int
    best: float
    value: float
    noise: float
    train_before: float
    train_now: float


class Overfitting:
    """Watches the metric of each evaluation beside the training loss since the one before.

    The metric is smoothed by the median of three evaluations. Overfitting has begun when three smoothed values in
    a row are worse than the best one by more than the noise, while the training loss fell, so that the gap between
    the two has grown. The noise is the larger of two: the standard error of the metric over the validation data,
    and 5 standard deviations of what the curve wiggles from evaluation to evaluation. It is said once.

    Args:
        mode: "min" or "max".

    Examples:
        >>> overfitting = Overfitting()
        >>> metric = [1.0, 0.8, 0.7, 0.66, 0.63, 0.65, 0.7, 0.76, 0.84, 0.93, 1.03]
        >>> found = [overfitting.update(value, 1 / (n + 1), samples=100 * n) for n, value in enumerate(metric)]
        >>> [(n, onset.samples) for n, onset in enumerate(found) if onset]
        [(10, 400)]

    Source: the standard error as the smallest difference that counts is the one-standard-error rule of Breiman et
        al. 1984, Classification and Regression Trees, section 3.4.3; the turn of the validation error as the mark
        of overfitting is Prechelt 1998, Early Stopping - But When?, section 1; the thresholds are measured by the
        false alarms of tests/recipe/online/test_overfitting.py.
    """

    def __init__(self, mode: str = "min") -> None:
        self._sign = 1.0 if mode == "min" else -1.0
        self._values: list[float] = []
        self._recent: list[tuple[float, float, int]] = []
        self._best: tuple[float, float, int] | None = None
        self._num_evals = 0
        self._bad_evals = 0
        self._said = False

    def update(
        self, value: float, train_loss: float, *, samples: int, error: float | None = None
    ) -> Onset | None:
        """Take one evaluation; what is not finite is passed over.

        Args:
            value: the metric.
            train_loss: mean since the evaluation before.
            samples: position of the run.
            error: standard error of the metric; None where it is not known.
        """
        if self._said or not (math.isfinite(value) and math.isfinite(train_loss)):
            return None
        self._num_evals += 1
        self._values = [*self._values[-NOISE_EVALS:], value * self._sign]
        self._recent = [*self._recent[1 - SMOOTHED_EVALS :], (value * self._sign, train_loss, samples)]
        if len(self._recent) < SMOOTHED_EVALS:
            return None
        now = self._smoothed()
        if self._best is None or now[0] < self._best[0]:
            self._best, self._bad_evals = now, 0
            return None
        noise = max(error or 0.0, _noise(self._values, self._best[0]))
        worse = now[0] - self._best[0] > noise and train_loss < self._best[1]
        self._bad_evals = self._bad_evals + 1 if worse else 0
        if self._bad_evals < BAD_EVALS or self._num_evals < MIN_EVALS:
            return None
        self._said = True
        best, train_before, at = self._best
        return Onset(at, best * self._sign, now[0] * self._sign, noise, train_before, train_loss)

    def _smoothed(self) -> tuple[float, float, int]:
        """Median of the last three values, with the training loss and the place of the one in the middle."""
        _, train_loss, samples = self._recent[SMOOTHED_EVALS // 2]
        return median(value for value, _, _ in self._recent), train_loss, samples

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on: plain numbers."""
        return {
            "values": self._values,
            "recent": [list(entry) for entry in self._recent],
            "best": list(self._best) if self._best else None,
            "num_evals": self._num_evals,
            "bad_evals": self._bad_evals,
            "said": self._said,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._values = [float(value) for value in state["values"]]
        self._recent = [(float(value), float(loss), int(at)) for value, loss, at in state["recent"]]
        best = state["best"]
        self._best = (float(best[0]), float(best[1]), int(best[2])) if best else None
        self._num_evals, self._bad_evals = int(state["num_evals"]), int(state["bad_evals"])
        self._said = bool(state["said"])


def _noise(values: list[float], best: float) -> float:
    """What an evaluation can be off by chance; infinite where too few are known.

    Second differences are free of the curve's slope and have six times the variance of the noise. Those of
    neighbours miss noise that lasts for several evaluations, so those of every third value count too. A sharp turn
    of the curve bends these as well; they explain no more than a tenth of the metric.

    Source: Gasser, Sroka & Jennen-Steinmetz 1986, Residual variance and residual pattern in nonlinear regression
        (Biometrika 73), section 2; with the MAD in place of the mean square.
    """
    if len(values) < MIN_EVALS:
        return math.inf
    near, far = (WIGGLES * _wiggle(values, lag) for lag in (1, 3))
    return max(near, min(far, SURE_SHARE * abs(best)))


def _wiggle(values: list[float], lag: int) -> float:
    """Standard deviation of a value around a smooth curve, by the bends over three of them.

    Source: see `_noise`.
    """
    triples = list(zip(values, values[lag:], values[2 * lag :], strict=False))
    bends = [last - 2.0 * middle + first for first, middle, last in triples]
    return robust_spread(bends).deviation / math.sqrt(6.0) if len(bends) >= 4 else 0.0
