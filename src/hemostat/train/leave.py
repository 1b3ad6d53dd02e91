"""The end of a session: its last checkpoint, how it ended, and the way out of the process group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hemostat.errors import HemostatError, Interrupted, RecordError
from hemostat.train.control import Stop
from hemostat.train.interrupt import Leaving

if TYPE_CHECKING:
    from hemostat.train.session import Session

LEAVE_TIMEOUT_S = 20.0


def leave(session: Session, error: BaseException | None) -> None:
    """Save where the run got to, write how it ended and leave the process group.

    Args:
        session: open until now.
        error: what ended its loop, if anything did.

    Raises:
        HemostatError: the last checkpoint could not be written, or another rank has left.
        Interrupted: a signal came, and data did not.
        BudgetStop: a cap was reached where nothing could be saved.
    """
    late = Stop(str(error), error.status).error() if isinstance(error, Leaving) else None
    error = late or error
    session.updater.allow_other_steps()
    session.loader.close()
    abandoned = (
        isinstance(error, Interrupted) and session.stop is not None
    )  # an evaluation, on all ranks together
    try:
        if error is None or abandoned:
            if session.stop is None and session.position[1] < session.recipe.total_samples:
                # a rank that left its loop alone must not wait to save
                session.world.barrier(LEAVE_TIMEOUT_S)
            session.save()
            if session.saver is not None:
                session.saver.wait()
    except HemostatError as refused:
        error = refused
        raise
    finally:
        _conclude(session, error)
    if late is not None:
        raise late


def _conclude(session: Session, error: BaseException | None) -> None:
    if session.saver is not None:
        session.saver.close()
    session.control.interrupt.remove()
    session.outcome.conclude(session, error)
    if error is None and session.stop is not None:
        error = session.stop.error()  # recorded, not raised: the loop ended as it was asked to
    try:
        session.record.header(lambda: {"summary": msgspec.to_builtins(session.outcome)})
        session.record.close(error)
    except RecordError:
        if error is None:  # else what ended the run is the better news: often the same full disk
            raise
    finally:
        session.heartbeat.close()
        session.world.close()
