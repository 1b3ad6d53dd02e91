"""What an error bar is and what it covers: quantiles and shares of errors, each table counting alike."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def quantile_alike(groups: Sequence[Sequence[float]], share: float) -> float:
    """The least value of the groups that so much of them is at most, each group counting alike."""
    weighted = sorted((value, 1 / len(group) / len(groups)) for group in groups for value in group)
    total = 0.0
    for value, weight in weighted:
        total += weight
        if total >= share - 1e-9:
            return value
    raise ValueError("no group has a value")


def inside_pct(groups: Sequence[Sequence[float]], most: float, least: float = 0.0) -> float:
    """How much of the groups is between two ends, each group counting alike."""
    shares = [statistics.fmean(least <= value <= most for value in group) for group in groups]
    return 100 * statistics.fmean(shares)
