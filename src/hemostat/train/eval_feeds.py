"""How a session reads the data that it is judged on: measured once, closed each time, the waits counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hemostat.data import EvalLoader, Source
from hemostat.errors import Interrupted
from hemostat.train.evaluate import Measure, Pooled, evaluate
from hemostat.train.rng import rng_state, set_rng_state
from hemostat.units import format_seconds

if TYPE_CHECKING:
    from hemostat.train.session import Session

WATCH_SHARE = 0.03  # as of the training data


class EvalFeeds:
    """One source for each data set, so that who reads it is measured at its first evaluation only.

    Args:
        session: whose ranks and workers read.

    Attributes:
        wait_s: time that this rank stood waiting for a batch, in all evaluations.
    """

    def __init__(self, session: Session) -> None:
        self.wait_s = 0.0
        self._session = session
        self._sources: list[tuple[Any, Source]] = []

    @contextmanager
    def loader(self, data: Any) -> Iterator[EvalLoader]:
        """This rank's share of all rows; its threads and processes end with the block."""
        session = self._session
        loader = EvalLoader(
            self._source(data),
            rank=session.mesh.data_rank,
            num_ranks=session.mesh.num_data_ranks,
            micro_batch=session.recipe.micro_batch,
            workers=session.settings.workers,
        )
        try:
            yield loader
        finally:
            loader.close()
            self.wait_s += loader.waits.wait_s

    def measured(self, data: Any, measure: Measure) -> Pooled:
        """The figures of every row, pooled over all ranks.

        Args:
            data: map-style dataset or DataLoader.
            measure: (model, batch) -> name: (sum, count).

        Raises:
            Interrupted: a signal came, on whichever rank; the session's random numbers are those of its step again.
        """
        session = self._session
        random, told = rng_state(session.world.device), session.control.interrupt
        with session.autocast(), session.spending.evaluating(), self.loader(data) as loader:
            found = evaluate(session.parts.judged, loader, measure, session.mesh, told)
        session.parts.end_evaluation()
        if found is None:
            set_rng_state(random, session.world.device)
            step = session.position[0]
            session.stop = session.control.signalled(f"during the evaluation at step {step}")
            raise Interrupted(session.stop.reason)
        return found

    def _source(self, data: Any) -> Source:
        if isinstance(data, Source):
            return data
        known = next((source for given, source in self._sources if given is data), None)
        if known is None:
            known = Source(data, "val_data")
            self._sources.append((data, known))  # the data too: their identity must not be given to others
        return known

    def verdict(self, wall_s: float) -> str:
        """What a run of `wall_s` seconds says of it; nothing where it was no loss, or the run was below a second."""
        share = self.wait_s / wall_s if wall_s >= 1.0 else 0.0
        if share < WATCH_SHARE:
            return ""
        return f"evaluations waited for their data for {format_seconds(self.wait_s)}, {share:.0%} of the run"
