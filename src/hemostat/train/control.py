"""The control vote: one small sum over the ranks per step carries the loss, its count and every wish to stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from hemostat.track import control
from hemostat.train.interrupt import Interrupt
from hemostat.train.process import World

LOOK_EVERY_S = 0.5


class Vote(NamedTuple):
    """What all ranks know after a step.

    Attributes:
        loss_sum: over the window and all ranks.
        num_items: terms of that sum.
        part_square: squared gradient norms of the ranks, summed.
        stop_reason: one sentence if the run is to end, else empty.
    """

    loss_sum: float
    num_items: float
    part_square: float
    stop_reason: str


class ControlVote:
    """Asks every rank once a step and gives all of them the same answer.

    Args:
        world: the ranks; one alone asks nobody.
        run_dir: where control.json may appear; None when nothing is recorded.

    Attributes:
        interrupted: a signal ended the run.
    """

    def __init__(self, world: World, run_dir: Path | None) -> None:
        self._world = world
        self._run_dir = run_dir if world.rank == 0 else None
        self._next_look_s = 0.0
        self._wish = control(run_dir) if run_dir is not None else None
        self.interrupt = Interrupt()
        self.interrupted = False

    def vote(self, loss_sum: float, count: float, part_square: float, *, samples: int) -> Vote:
        """Pool one step.

        Args:
            loss_sum: this rank's.
            count: this rank's.
            part_square: this rank's, see `NoiseMeter`.
            samples: position of the run; control.json names positions.
        """
        signalled = float(bool(self.interrupt.name))
        asked = float(self._asked_to_stop(samples))
        if self._world.num_ranks > 1:
            mine = [loss_sum, count, part_square, signalled, asked]
            loss_sum, count, part_square, signalled, asked = self._world.sum(mine)
        reason = f"control.json asked for it at {samples} samples" if asked else ""
        if signalled:
            self.interrupted = True
            reason = f"{self.interrupt.name or 'a signal on another rank'} at {samples} samples"
        return Vote(loss_sum, count, part_square, reason)

    def _asked_to_stop(self, samples: int) -> bool:
        if self._run_dir is None or self._wish is None:
            return False
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_EVERY_S
            self._wish = control(self._run_dir)
        return self._wish.due(samples)
