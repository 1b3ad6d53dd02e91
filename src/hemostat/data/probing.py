"""What the ways to read faster are measured on and with; advice.py puts them in order."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from torch import Tensor

from hemostat.data.fetch import Source
from hemostat.data.leaves import tensors


class Advice(NamedTuple):
    """One way to read faster.

    Attributes:
        way: short name, as in "batch fetch".
        gain: batches per second over reading as it is now in one thread, unless `what` names another measure;
            None where it could not be measured, or does not apply.
        what: what to do, or why there is nothing to do.
        applies: False where these data have no use for it.
    """

    way: str
    gain: float | None
    what: str
    applies: bool = True


class Subject(NamedTuple):
    """The data at hand, read once already.

    Attributes:
        source: the data.
        micro_batch: samples in one batch.
        first_s: seconds for one batch the first time its samples are read.
        fetch_s: the same the second time, in one thread.
        batch: one of them.
        budget_s: how long one way may be measured.
    """

    source: Source
    micro_batch: int
    first_s: float
    fetch_s: float
    batch: Any
    budget_s: float

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors of the batch."""
        return list(tensors(self.batch))

    def timed(self, work: Callable[[], Any]) -> float:
        """Seconds of one call, of many."""
        work()
        began, count = perf_counter(), 0
        while (spent := perf_counter() - began) < self.budget_s / 10 or count < 3:
            work()
            count += 1
        return spent / count

    def gain(self, after_s: float) -> float:
        """Of a way that takes `after_s` for a batch."""
        return self.fetch_s / max(after_s, 1e-9)

    def gain_without(self, saved_s: float) -> float:
        """Of a way that saves a part; at most 20 times, since a difference of two times is not exact."""
        return self.gain(max(self.fetch_s - saved_s, 0.05 * self.fetch_s))


def unfit(way: str, why: str) -> Advice:
    """A way that these data have no use for."""
    return Advice(way, None, why, applies=False)
