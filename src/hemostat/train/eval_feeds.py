"""How a session reads the data that it is judged on: measured once, closed each time, the waits counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hemostat.data import EvalLoader, Source
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
            rank=session.world.rank,
            num_ranks=session.world.num_ranks,
            micro_batch=session.recipe.micro_batch,
            workers=session.settings.workers,
        )
        try:
            yield loader
        finally:
            loader.close()
            self.wait_s += loader.waits.wait_s

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
