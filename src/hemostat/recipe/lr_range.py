"""The learning-rate range test as arithmetic: which rates to try, when to stop, what the losses say."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from hemostat.config import Config

DECADES = 3  # on either side of the recipe's rate
HALF_WINDOW = 3  # the curve is the mean of 7 losses, centred, so that it is not late
SAFETY = 10.0
EXPLODED = 4.0  # times the best smoothed loss
LEAST_STEPS = 20
CLEAR = 3.0  # standard errors of a smoothed loss that the fall must exceed
SOURCE = "Smith 2017 (arXiv 1506.01186) section 3.3; factors of 4 and 10 as in fastai's lr_find"


class RangeVerdict(Config, frozen=True, kw_only=True):
    """What a range test says.

    Attributes:
        lr: suggested peak rate at the batch that was tested; None where the losses do not say.
        steepest: rate at which the loss fell fastest over the logarithm of the rate.
        largest: rate at the lowest smoothed loss, the last before it rose.
        why: one sentence.
    """

    lr: float | None = None
    steepest: float | None = None
    largest: float | None = None
    why: str


def sweep(middle: float, num_steps: int) -> list[float]:
    """Rates from a thousandth to a thousand times `middle`, each the same factor above the last.

    Examples:
        >>> [round(rate, 6) for rate in sweep(0.1, 7)]
        [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0]

    Source: Smith 2017 (arXiv 1506.01186) section 3.3 raises the rate linearly; the exponential sweep is fastai's.
    """
    last = num_steps - 1
    return [middle * 10.0 ** (DECADES * (2 * step / last - 1)) for step in range(num_steps)]


def exploded(losses: Sequence[float]) -> bool:
    """The loss has left the range for good: not finite, or its last 7 average over 4 times the best average.

    For losses that may be negative the distance from the start counts: 4 times the largest fall above it.

    Examples:
        >>> exploded([2.0] * 20), exploded([2.0] * 20 + [math.nan]), exploded([2.0] * 20 + [90.0] * 3)
        (False, True, True)
    """
    if losses and not math.isfinite(losses[-1]):
        return True
    if len(losses) < LEAST_STEPS:
        return False
    curve = smooth(losses)[:-HALF_WINDOW]
    now = statistics.fmean(losses[-2 * HALF_WINDOW - 1 :])
    best = min(curve)
    if best > 0:
        return now > EXPLODED * best
    return now - curve[0] > EXPLODED * max(curve[0] - best, abs(best))


def smooth(losses: Sequence[float]) -> list[float]:
    """Mean of each loss and its 3 neighbours on either side; fewer at the ends.

    Examples:
        >>> smooth([0.0, 0.0, 0.0, 7.0, 0.0, 0.0, 0.0])[3]
        1.0
    """
    width = HALF_WINDOW
    return [statistics.fmean(losses[max(0, at - width) : at + width + 1]) for at in range(len(losses))]


def read_range(rates: Sequence[float], losses: Sequence[float]) -> RangeVerdict:
    """Read the losses of a sweep.

    The suggestion is the smaller of two: the rate of the steepest fall, and a tenth of the largest rate before
    the loss rose. Both are read off the smoothed curve.

    Args:
        rates: rising, at least as many as losses.
        losses: mean loss of each step over all ranks, before its update; the last may be not finite.

    Source: Smith 2017 (arXiv 1506.01186) section 3.3: the loss over the rate; the steepest fall and a tenth of the
        minimum are fastai's two suggestions.
    """
    finite = list(losses)
    while finite and not math.isfinite(finite[-1]):
        finite.pop()
    if len(finite) < LEAST_STEPS:
        return RangeVerdict(
            why=f"the loss exploded after {len(finite)} steps, below {_text(rates, len(finite))}."
        )
    curve = smooth(finite)
    lowest = min(range(len(curve)), key=curve.__getitem__)
    start = statistics.median(curve[: max(1, min(LEAST_STEPS, lowest) // 2)])
    fall = start - curve[lowest]
    spread = _noise(finite[: lowest + 1], curve) / math.sqrt(2 * HALF_WINDOW + 1)
    if lowest < 2 * HALF_WINDOW or fall <= 2 * CLEAR * spread:
        return RangeVerdict(
            why=f"the loss is too noisy, or does not fall: {fall:.3g} against a standard error of {spread:.2g}."
        )
    steps = [math.log(rates[at + 1] / rates[at - 1]) for at in range(1, lowest)]
    slopes = [(curve[at + 1] - curve[at - 1]) / step for at, step in enumerate(steps, start=1)]
    steepest = rates[1 + min(range(len(slopes)), key=slopes.__getitem__)]
    largest = rates[lowest]
    if lowest >= len(curve) - 1 - HALF_WINDOW:
        return RangeVerdict(
            lr=steepest,
            steepest=steepest,
            largest=largest,
            why=f"the loss falls fastest at {steepest:.3g} and had not risen by {largest:.3g}.",
        )
    lr = min(steepest, largest / SAFETY)
    why = (
        f"the loss falls fastest at {steepest:.3g} and rises beyond {largest:.3g}, of which a tenth is safe."
    )
    return RangeVerdict(lr=lr, steepest=steepest, largest=largest, why=why)


def _noise(losses: Sequence[float], curve: Sequence[float]) -> float:
    """Standard deviation of one loss around the curve, from the median of the distances.

    Source: median absolute deviation times 1.4826 for a normal distribution (Rousseeuw & Croux 1993, section 1).
    """
    apart = [abs(loss - near) for loss, near in zip(losses, curve, strict=False)]
    return 1.4826 * statistics.median(apart)


def _text(rates: Sequence[float], step: int) -> str:
    return f"{rates[min(step, len(rates) - 1)]:.3g}"
