"""The end of a window: one vote of all ranks, one update or a counted skip, and what both say of the run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hemostat.data import MicroBatch
from hemostat.train.control import stronger
from hemostat.train.update import Step

if TYPE_CHECKING:
    from hemostat.train.session import Session


def finish_window(session: Session, micro: MicroBatch) -> bool:
    """Vote and update, once all gradients of a window are there; call it on all ranks.

    Args:
        session: with the gradients and losses of the window.
        micro: its last micro-batch.

    Returns:
        A checkpoint is due.

    Raises:
        GuardStop: too many steps in a row were not finite.
        TaskError: the data hold NaN.
    """
    session.pulse.enter("reduce")
    mine = session.mesh.counted(
        *session.window_loss.drain(), session.noise.part_square(session.precision.loss_scale)
    )
    loss_sum, count, part_square, save_is_due, stop, out_of_memory = session.control.vote(
        *mine, samples=micro.position
    )
    if out_of_memory:
        session.back_off.give_up(micro)
        return save_is_due
    lr = session.recipe.schedule.lr(session.applied_steps) * session.stopper.lr_factor
    factor = micro.window_samples / count if count > 0 else 0.0
    session.alike.check_grads(session.updater.params)
    session.parts.complete(session.updater.params)
    update = session.updater.apply(factor, lr, finite=math.isfinite(loss_sum) and math.isfinite(count))
    number = session.last.number + 1 if session.last else 1
    loss = loss_sum / count if count else math.nan
    session.last = Step(number, micro.position, loss, lr, update.grad_norm, update.applied)
    session.pulse.stepped(number)
    if session.world.rank == 0:
        session.record.log(number, micro.position, {"loss": loss, "lr": lr, "grad_norm": update.grad_norm})
    if update.applied:
        session.applied_steps += 1
        session.noise.update(part_square, update.grad_norm, micro.window_samples, factor)
        session.skips.applied()
    else:
        session.skipped_steps += 1
        # fp16 looks for its scale by skipping; a window that counts nothing has nothing to learn from
        searching = math.isfinite(loss_sum) and session.precision.loss_scale > 1.0
        if not searching and count != 0:
            for finding in session.skips.skipped(session.last, micro, session.loader.feed, mine):
                session.heed(finding)
    session.guards.after_step()
    session.stop = stronger(session.stop, stop)
    session.pulse.enter("loop")
    return save_is_due
