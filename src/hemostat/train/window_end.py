"""The end of a window: one vote of all ranks, one update or a counted skip, and what both say of the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from hemostat.data import MicroBatch
from hemostat.train.control import Vote, stronger
from hemostat.train.lag import OnItsWay, on
from hemostat.train.update import Step

if TYPE_CHECKING:
    from hemostat.train.session import Session


class Figures(NamedTuple):
    """What came of a step, as plain numbers.

    Attributes:
        loss_sum: over all ranks.
        num_items: terms of that sum.
        part_square: see `Vote`.
        applied: 0 for a skip.
        grad_norm: before clipping.
        loss_scale: of fp16, as the step has left it.
        mine: loss sum, count and squared gradient norm of this rank.
    """

    loss_sum: float
    num_items: float
    part_square: float
    applied: float
    grad_norm: float
    loss_scale: float
    mine: tuple[float, ...]


class Made(NamedTuple):
    """A step that was made; what came of it may not have been read yet.

    Attributes:
        number: of its window.
        micro: the last micro-batch of it.
        lr: learning rate.
        told: what came of it, or the fields of `Figures` one after the other.
    """

    number: int
    micro: MicroBatch
    lr: float
    told: Figures | OnItsWay

    def figures(self) -> Figures:
        """What came of it; waits for the device where that is still at it."""
        if isinstance(self.told, Figures):
            return self.told
        loss_sum, num_items, part_square, applied, grad_norm, loss_scale, *mine = self.told.read()
        return Figures(loss_sum, num_items, part_square, applied, grad_norm, loss_scale, tuple(mine))

    def step(self, told: Figures) -> Step:
        """The step as it is shown.

        Args:
            told: its figures.
        """
        loss = told.loss_sum / told.num_items if told.num_items else math.nan
        return Step(self.number, self.micro.position, loss, self.lr, told.grad_norm, bool(told.applied))


def finish_window(session: Session, micro: MicroBatch) -> None:
    """Vote and update, once all gradients of a window are there; call it on all ranks.

    Args:
        session: with the gradients and losses of the window.
        micro: its last micro-batch.

    Raises:
        GuardStop: too many steps in a row were not finite.
        TaskError: the data hold NaN.
    """
    session.pulse.enter("reduce")
    settle(session)  # of the step before, else its rate could not be followed by the right one
    late = session.lag_steps > 0 and session.updater.has_begun
    number = on(session.world.device) if late else float
    loss_scale = session.precision.scale_as(number)
    mine = session.mesh.counted(
        *session.window_loss.drain(number), session.noise.part_square(loss_scale, number)
    )
    # what the device has still to compute travels there; the wishes of the hosts do not wait for it
    vote = session.control.vote(*((0.0, 0.0, 0.0) if late else mine), samples=micro.position)
    session.save_is_due = vote.save or session.save_is_due
    if vote.out_of_memory:
        session.back_off.give_up(micro)
        return
    lr = session.recipe.schedule.lr(session.applied_steps) * session.stopper.lr_factor
    session.alike.check_grads(session.updater.params)
    session.parts.complete(session.updater.params)
    samples = micro.window_samples
    told = _update_late(session, samples, lr, mine) if late else _update(session, samples, lr, vote, mine)
    session.made = Made(session.position[0] + 1, micro, lr, told)
    session.pulse.stepped(session.made.number)
    if not late:
        settle(session)
    session.stop = stronger(session.stop, vote.stop)
    session.pulse.enter("loop")


def _update(session: Session, samples: int, lr: float, vote: Vote, mine: tuple[float, ...]) -> Figures:
    """One update that the host decides on, and what came of it."""
    finite = math.isfinite(vote.loss_sum) and math.isfinite(vote.num_items)
    applied, norm = session.updater.apply(_factor(samples, vote.num_items), lr, finite=finite)
    return Figures(*vote[:3], float(applied), float(norm), session.precision.loss_scale, mine)


def _update_late(session: Session, samples: int, lr: float, mine: Sequence[torch.Tensor]) -> OnItsWay:
    """The same without a value that the host would have to wait for."""
    pooled = session.world.sum_there(torch.stack(list(mine)))
    loss_sum, count, _ = pooled
    # full_like: a plain number would be copied to the device, which waits for it, or be divided by in another way
    factor = torch.where(count > 0, torch.full_like(count, samples) / count, torch.zeros_like(count))
    update = session.updater.apply_on_device(factor, lr, torch.isfinite(loss_sum) & torch.isfinite(count))
    number = on(session.world.device)
    told = (update.applied, update.grad_norm, session.precision.scale_as(number))
    return OnItsWay([*pooled, *map(number, told), *mine])


def _factor(samples: int, count: float) -> float:
    return samples / count if count > 0 else 0.0


def settle(session: Session) -> None:
    """Read what came of the latest step, if nobody has, and act on it; call it on all ranks.

    Raises:
        GuardStop: too many steps in a row were not finite.
        TaskError: the data hold NaN.
    """
    if session.made is None:
        return
    told, micro = session.made.figures(), session.made.micro
    session.last = step = session.made.step(told)
    if session.world.rank == 0:
        shown = {"loss": step.loss, "lr": step.lr, "grad_norm": step.grad_norm}
        session.record.log(step.number, step.samples, shown)
    if step.applied:
        session.applied_steps += 1
        factor = _factor(micro.window_samples, told.num_items)
        session.noise.update(told.part_square, step.grad_norm, micro.window_samples, factor)
        session.skips.applied()
    else:
        session.skipped_steps += 1
        # fp16 looks for its scale by skipping; a window that counts nothing has nothing to learn from
        searching = math.isfinite(told.loss_sum) and told.loss_scale > 1.0
        if not searching and told.num_items != 0:
            for finding in session.skips.skipped(step, micro, session.loader.feed, told.mine):
                session.heed(finding)
    session.guards.after_step()
