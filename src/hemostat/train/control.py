"""The control vote: one small sum over the ranks per step carries the loss, its count and every wish to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hemostat.errors import BudgetStop, GuardStop, HemostatError, Interrupted
from hemostat.track import control
from hemostat.train.interrupt import Interrupt
from hemostat.train.process import World
from hemostat.train.spot import SpotWatch

LOOK_EVERY_S = 0.5


class Stop(NamedTuple):
    """Why a run is to end before its length.

    Attributes:
        reason: one sentence.
        status: exit status that the run ends with; 0 for an end that somebody asked for.
        paused: it is to be resumed, so nothing is judged that the undisturbed run would not have judged.
    """

    reason: str
    status: int = 0
    paused: bool = False

    def error(self, more: str = "") -> HemostatError | None:
        """What the command ends with; None for status 0.

        Args:
            more: added to the reason, such as where the state was saved.
        """
        kinds: dict[int, type[HemostatError]] = {4: GuardStop, 5: BudgetStop, 75: Interrupted}
        return kinds[self.status](self.reason + more) if self.status else None


def stronger(first: Stop | None, second: Stop | None) -> Stop | None:
    """Of two reasons to end a run the one that says more; of two alike the first.

    A guard goes before a cap, a cap before a signal, and an end that was asked for comes last.

    Examples:
        >>> stronger(Stop("no improvement"), Stop("the loss diverges", 4)).status
        4
        >>> stronger(Stop("max_hours", 5), Stop("no improvement")).status, stronger(None, Stop("SIGTERM", 75)).status
        (5, 75)
    """
    given = [stop for stop in (first, second) if stop is not None]
    return min(given, key=lambda stop: (4, 5, 75, 0).index(stop.status), default=None)


_PAUSED = -1  # as a status in the vote


def _code(stop: Stop | None) -> int:
    return 0 if stop is None else _PAUSED if stop.paused else stop.status


Asker = Callable[[int], Stop | None]


class Vote(NamedTuple):
    """What all ranks know after a step.

    Attributes:
        loss_sum: over the window and all ranks.
        num_items: terms of that sum.
        part_square: squared gradient norms of the ranks, summed.
        save: rank 0's clock says that a checkpoint is due.
        stop: set if the run is to end.
        out_of_memory: a rank could not compute this window.
    """

    loss_sum: float
    num_items: float
    part_square: float
    save: bool
    stop: Stop | None
    out_of_memory: bool = False


class ControlVote:
    """Asks every rank once a step and gives all of them the same answer.

    Args:
        world: the ranks; one alone asks nobody.
        run_dir: where control.json may appear; None when nothing is recorded.
        save_every_s: longest time between two checkpoints; None never asks for one.
        grace_s: how long a wait for data may go on after a signal.
        spot: see `SpotWatch`.

    Attributes:
        askers: asked on rank 0 at each step with the position in samples; the first that answers stops the run.
    """

    def __init__(
        self,
        world: World,
        run_dir: Path | None,
        save_every_s: float | None = None,
        grace_s: float = 20.0,
        spot: str | None = None,
    ) -> None:
        self._world = world
        self._save_every_s = save_every_s if world.rank == 0 else None
        self._next_save_s = time.monotonic() + (save_every_s or 0.0)
        self.interrupt = Interrupt(world.pulse, grace_s, SpotWatch.of(spot, world.local_rank))
        self.askers: list[Asker] = []
        if run_dir is not None and world.rank == 0:
            self.askers.append(_ControlFile(run_dir).ask)

    def vote(
        self,
        loss_sum: float,
        count: float,
        part_square: float,
        *,
        samples: int,
        out_of_memory: bool = False,
    ) -> Vote:
        """Pool one step.

        Args:
            loss_sum: this rank's.
            count: this rank's.
            part_square: this rank's, see `NoiseMeter`.
            samples: position of the run; control.json names positions.
            out_of_memory: this rank could not compute the window.
        """
        signalled, save = float(bool(self.interrupt.name)), float(self._save_is_due())
        mine = next((stop for ask in self.askers if (stop := ask(samples)) is not None), None)
        asked, status = float(mine is not None), float(_code(mine))
        short = float(out_of_memory)
        if self._world.num_ranks > 1:
            wishes = [loss_sum, count, part_square, save, signalled, asked, status, short]
            loss_sum, count, part_square, save, signalled, asked, status, short = self._world.sum(wishes)
        said = Stop(f"rank 0 asked for it at {samples} samples", max(0, int(status)), status == _PAUSED)
        stop = (mine or said) if asked else None
        if signalled:
            stop = self.signalled(f"at {samples} samples")
        return Vote(loss_sum, count, part_square, bool(save), stop, bool(short))

    def signalled(self, where: str) -> Stop:
        """The end by a signal or a notice that some rank has got; call it on all of them."""
        names = [name for name in self._world.gather(self.interrupt.name) if name]
        return Stop(f"{names[0] if names else 'a signal'} {where}", Interrupted.exit_status)

    def saved(self) -> None:
        """A checkpoint was written: the next one is due a full interval from now."""
        self._next_save_s = time.monotonic() + (self._save_every_s or 0.0)

    def _save_is_due(self) -> bool:
        return self._save_every_s is not None and time.monotonic() >= self._next_save_s


class _ControlFile:
    """Looks at control.json now and then."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._next_look_s = 0.0
        self._wish = control(run_dir)

    def ask(self, samples: int) -> Stop | None:
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_EVERY_S
            self._wish = control(self._run_dir)
        if not self._wish.due(samples):
            return None
        if self._wish.action == "pause":
            return Stop(f"control.json asked for a pause at {samples} samples", paused=True)
        return Stop(f"control.json asked for it at {samples} samples")
