"""How long training waited for data, and the verdict in one line."""

from __future__ import annotations

from math import log2
from typing import Final

from hemostat.units import format_seconds

WATCH_SHARE: Final = 0.03
BOUND_SHARE: Final = 0.10
JUDGED_S: Final = 1.0  # in less, the first batch and the probe are most of what is seen
_PER_OCTAVE: Final = 4  # a bucket is 19 % wide, so a quantile is right within 10 %
_PER_S: Final = 1e7  # the first buckets hold tenths of a microsecond
_LAST: Final = 136  # 25 minutes and above


class Waits:
    """Totals over the life of one loader; all times are wall seconds of this rank.

    Attributes:
        wait_s: time the training loop stood in `next()`.
        last_wait_s: the latest of those waits.
        max_wait_s: the longest of those waits.
        fetch_s: time spent inside the data set and the collation, in whichever thread.
        num_fetches: number of micro-batches delivered.
        counts: how many waits were how long, in buckets that grow by a quarter of an octave.

    Examples:
        >>> waits = Waits()
        >>> waits.add(wait_s=1.4, fetch_s=2.0)
        >>> waits.verdict(wall_s=10.0)
        'input-bound: 14 % of the run waited for data'
        >>> 1.2 < waits.quantile_s(0.5) <= 1.4
        True

    Source: the 3 % and 10 % marks are a convention of this project (docs/data.md).
    """

    __slots__ = ("counts", "fetch_s", "last_wait_s", "max_wait_s", "num_fetches", "wait_s")

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.last_wait_s = 0.0
        self.max_wait_s = 0.0
        self.fetch_s = 0.0
        self.num_fetches = 0
        self.counts = [0] * (_LAST + 1)

    def add(self, wait_s: float, fetch_s: float) -> None:
        """Count one delivered micro-batch."""
        self.wait_s += wait_s
        self.last_wait_s = wait_s
        if wait_s > self.max_wait_s:
            self.max_wait_s = wait_s
        self.fetch_s += fetch_s
        self.num_fetches += 1
        place = int(_PER_OCTAVE * log2(1.0 + _PER_S * wait_s))
        self.counts[place if place < _LAST else _LAST] += 1

    def quantile_s(self, share: float) -> float:
        """The wait that `share` of all fetches did not exceed, within 10 %; 0 before the first."""
        left = share * self.num_fetches
        for place, count in enumerate(self.counts):
            left -= count
            if count and left <= 0:
                return min(self.max_wait_s, (2 ** ((place + 0.5) / _PER_OCTAVE) - 1) / _PER_S)
        return 0.0

    def share(self, wall_s: float) -> float:
        """Share of `wall_s` that was spent waiting, in 0..1; 0 for a run without length."""
        return min(1.0, self.wait_s / wall_s) if wall_s > 0 else 0.0

    def verdict(self, wall_s: float) -> str:
        """One line: below 3 % fine, from 3 % to watch, above 10 % input-bound; none of a run under a second."""
        share = self.share(wall_s)
        if wall_s < JUDGED_S:
            return f"data not judged: {format_seconds(wall_s)} are too short for it"
        if share > BOUND_SHARE:
            return f"input-bound: {share * 100:.0f} % of the run waited for data"
        if share >= WATCH_SHARE:
            return f"data to watch: {share * 100:.0f} % of the run waited for it"
        return f"data fine: {share * 100:.1f} % of the run waited for it"
