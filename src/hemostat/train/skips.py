"""Steps that were not finite: skipped and counted on all ranks together, named, and ended when there are too many."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NamedTuple

from hemostat.data import Feed, MicroBatch, Source
from hemostat.errors import GuardStop, TaskError
from hemostat.findings import Finding, Severity
from hemostat.train.guards import name_samples, nonfinite_samples
from hemostat.train.process import World
from hemostat.train.update import Step

SAID: Final = 5  # findings of one run; all skips are counted
SHOWN: Final = 3


class Share(NamedTuple):
    """What one rank had of a window that was not finite.

    Attributes:
        rank: global rank.
        finite: its own loss and gradient were.
        start: its first sample, in samples over all ranks and epochs.
        stop: behind its last one.
        holds: a sample of train_data that holds NaN or infinity, by its index; None where none does.
    """

    rank: int
    finite: bool
    start: int
    stop: int
    holds: int | None


class Skips:
    """Counts non-finite steps in a row.

    Args:
        world: the ranks.
        source: training data, searched for NaN when a step was not finite.
        limit: skipped steps in a row that are borne.
    """

    def __init__(self, world: World, source: Source, limit: int) -> None:
        self._world = world
        self._source = source
        self._limit = limit
        self._in_a_row = self._said = 0

    def applied(self) -> None:
        """A step was applied."""
        self._in_a_row = 0

    def skipped(self, step: Step, micro: MicroBatch, feed: Feed, mine: tuple[float, ...]) -> list[Finding]:
        """A step was not finite; call it on all ranks.

        Args:
            step: the skipped one.
            micro: the last micro-batch of its window.
            feed: how the window was cut.
            mine: loss, count and gradient norm of this rank before they were joined with those of the others.

        Returns:
            What to say of it, equal on all ranks: which rank, which samples. Nothing after five times.

        Raises:
            TaskError: the samples of the window hold NaN or infinity; on all ranks.
            GuardStop: too many in a row.
        """
        shares = self._shares(micro, feed, mine)
        holding = next((share for share in shares if share.holds is not None), None)
        if holding is not None:
            where = f" (rank {holding.rank})" if len(shares) > 1 else ""
            raise TaskError(
                f"sample {holding.holds} of train_data{where} holds NaN or infinity. Clean the data; a run on it "
                "cannot end well."
            )
        blamed = [share for share in shares if not share.finite] or shares
        self._in_a_row += 1
        if self._in_a_row > self._limit:
            raise GuardStop(
                f"loss or gradient was not finite in {self._in_a_row} steps in a row, up to step {step.number}, there "
                f"on {self._named(blamed)}. Lower lr, lengthen warmup_steps, or set clip_norm=1."
            )
        self._said += 1
        return [self._finding(step, blamed, feed)] if self._said <= SAID else []

    def _shares(self, micro: MicroBatch, feed: Feed, mine: tuple[float, ...]) -> list[Share]:
        begin = micro.position - micro.window_samples
        start, stop = (begin + micro.window_samples * (feed.rank + more) // feed.num_ranks for more in (0, 1))
        bad = nonfinite_samples(self._source, feed, begin)
        own = Share(
            self._world.rank, all(map(math.isfinite, mine)), start, stop, int(bad[0]) if bad else None
        )
        return [Share(*json.loads(told)) for told in self._world.gather(json.dumps(own))]

    def _named(self, shares: list[Share]) -> str:
        parts = []
        for share in shares[:SHOWN]:
            epoch, start = divmod(share.start, self._source.num_samples)
            parts.append(
                f"rank {share.rank} (epoch {epoch}, samples {start} to {start + share.stop - share.start - 1})"
            )
        if len(shares) > SHOWN:
            parts.append(f"{len(shares) - SHOWN} more")
        return ", ".join(parts)

    def _finding(self, step: Step, shares: list[Share], feed: Feed) -> Finding:
        what = "gradient" if math.isfinite(step.loss) else "loss"
        last = " Later ones are counted and not told." if self._said == SAID else ""
        return Finding(
            code="HG007",
            severity=Severity.WARNING,
            message=f"step {step.number} was skipped on all ranks: {what} not finite on {self._named(shares)}.",
            fix=f"Look at {name_samples(self._source, feed.seed, shares[0].start, shares[0].stop)}.{last}",
            where=f"step {step.number}, samples {shares[0].start} to {shares[0].stop - 1}",
            evidence={
                "step": step.number,
                "ranks": [share.rank for share in shares],
                "samples": [[share.start, share.stop] for share in shares],
                "in_a_row": self._in_a_row,
            },
        )

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {"in_a_row": self._in_a_row, "said": self._said}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._in_a_row, self._said = int(state["in_a_row"]), int(state["said"])
