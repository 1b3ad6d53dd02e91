"""Middle and scatter of a few numbers, both deaf to outliers."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    """Middle and scatter.

    Attributes:
        middle: the median.
        deviation: what would be the standard deviation, were the numbers normal.
    """

    middle: float
    deviation: float


def robust_spread(values: Iterable[float]) -> Spread:
    """Median, and 1.4826 times the median absolute deviation from it (MAD).

    Source: Rousseeuw & Croux 1993, Alternatives to the Median Absolute Deviation (JASA 88), section 1: the factor
        makes the MAD of a normal sample its standard deviation.

    Examples:
        >>> robust_spread([1.0, 2.0, 3.0, 4.0, 100.0])
        Spread(middle=3.0, deviation=1.4826)
    """
    listed = list(values)
    middle = median(listed)
    return Spread(middle, 1.4826 * median(abs(value - middle) for value in listed))
