"""`Pulse`: where the training thread of this rank stands, set by a few writes a step and read by its heart-beat."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from hemostat.track import RunRecord


class Place(NamedTuple):
    """One value, so that the thread that reads it never sees half of a change.

    Attributes:
        phase: "start", "evaluate", "save", "loop" (what a loop does between two steps), "data", "forward", "backward"
            or "reduce".
        step: completed steps.
        part: micro-batches of the step under way that were handed out.
        met: how often the ranks have met in this phase.
        since_s: when that became so, of a clock that never goes back.
    """

    phase: str
    step: int
    part: int
    met: int
    since_s: float


class Pulse:
    """Where this rank stands; each method takes less than a microsecond.

    Attributes:
        at: the place.
        run_dir: where the heart-beats of the ranks are; None where nothing is recorded.
        saver: of the group on which checkpoints are written, perhaps by a thread; None without one.

    Examples:
        >>> pulse = Pulse()
        >>> pulse.stepped(3)
        >>> pulse.hand_out()
        >>> pulse.meet()
        >>> pulse.at[:4]
        ('forward', 3, 1, 1)
    """

    __slots__ = ("_part", "_step", "at", "run_dir", "saver")

    def __init__(self) -> None:
        self._step = self._part = 0
        self.run_dir: Path | None = None
        self.saver: Pulse | None = None
        self.at = Place("start", 0, 0, 0, time.monotonic())

    def enter(self, phase: str) -> None:
        """Another phase begins."""
        self.at = Place(phase, self._step, self._part, 0, time.monotonic())

    def hand_out(self) -> None:
        """A micro-batch goes to the loop."""
        self._part += 1
        self.enter("forward")

    def stepped(self, step: int) -> None:
        """A window is over; the next phase belongs to what follows `step` steps."""
        self._step, self._part = step, 0

    def meet(self) -> None:
        """The ranks meet: whoever has not come this far is behind."""
        phase, step, part, met, _ = self.at
        self.at = Place(phase, step, part, met + 1, time.monotonic())

    def place(self) -> Place:
        """Where this rank stands; in a save, how often the ranks have met for it."""
        at = self.at
        if at.phase != "save" or self.saver is None:
            return at
        saving = self.saver.at
        return at._replace(met=saving.met, since_s=max(at.since_s, saving.since_s))

    def who_is_late(self) -> str:
        """The sentence about the rank that keeps this one waiting; empty where nobody knows."""
        hang = RunRecord(self.run_dir).lookout(late=True).look() if self.run_dir else None
        return hang.sentence() if hang is not None else ""
