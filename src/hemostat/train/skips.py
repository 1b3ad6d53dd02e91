"""Steps that were not finite: skipped and counted on all ranks together, and ended when there are too many."""

from __future__ import annotations

from typing import Any

from hemostat.data import Feed, MicroBatch, Source
from hemostat.errors import GuardStop, TaskError
from hemostat.train.guards import nonfinite_samples
from hemostat.train.process import World
from hemostat.train.update import Step


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
        self._in_a_row = 0

    def applied(self) -> None:
        """A step was applied."""
        self._in_a_row = 0

    def skipped(self, step: Step, micro: MicroBatch, feed: Feed) -> None:
        """A step was not finite.

        Args:
            step: the skipped one.
            micro: the last micro-batch of its window.
            feed: how the window was cut.

        Raises:
            TaskError: the samples of the window hold NaN or infinity.
            GuardStop: too many in a row.
        """
        bad = nonfinite_samples(self._source, feed, micro.position - micro.window_samples)
        if self._world.sum([float(bool(bad))])[0] > 0:
            what = f"sample {bad[0]} of train_data holds" if bad else "train_data on another rank holds"
            raise TaskError(f"{what} NaN or infinity. Clean the data; a run on it cannot end well.")
        self._in_a_row += 1
        if self._in_a_row > self._limit:
            raise GuardStop(
                f"loss or gradient was not finite in {self._in_a_row} steps in a row, up to step {step.number}. "
                "Lower lr, lengthen warmup_steps, or set clip_norm=1."
            )

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {"in_a_row": self._in_a_row}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._in_a_row = int(state["in_a_row"])
