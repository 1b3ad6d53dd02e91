"""The run's record as the engine sees it: one directory for all ranks, a header, metrics and an outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hemostat.errors import HemostatError, RecordError
from hemostat.track import Recorder, create_run, new_run_id, update_run, write_exit
from hemostat.train.process import World

DEFAULT_ROOT = Path(".hemostat") / "runs"


class Record:
    """Joins or makes the run directory and writes to it.

    The launcher hands the directory down in HEMOSTAT_RUN_DIR; under plain torchrun rank 0 picks the id and the
    others are told. Only rank 0 writes run.json, every rank has a metrics file of its own.

    Args:
        world: the ranks.
        enabled: False records nothing and makes no directory.

    Attributes:
        path: the run directory; its name is the run id.

    Raises:
        RecordError: the directory cannot be made or written; raised on all ranks.
    """

    def __init__(self, world: World, enabled: bool = True) -> None:
        self._rank = world.rank
        self._writes_header = enabled and world.rank == 0
        self._recorder: Recorder | None = None
        self.path: Path | None = None
        if not enabled:
            return
        given = os.environ.get("HEMOSTAT_RUN_DIR") or str(DEFAULT_ROOT / new_run_id())
        self.path = Path(world.from_rank_zero(given))
        trouble = ""
        try:
            create_run(self.path.parent, self.path.name, {})
            self._recorder = Recorder(self.path, world.rank)
        except RecordError as error:
            trouble = str(error)
        if world.sum([float(bool(trouble))])[0] > 0:
            raise RecordError(trouble or f"another rank could not write {self.path}")

    def header(self, fields: Callable[[], Mapping[str, Any]]) -> None:
        """Add fields to run.json; on ranks above 0 they are not even computed."""
        if self._writes_header and self.path is not None:
            update_run(self.path, **fields())

    def log(self, step: int, samples: int, values: Mapping[str, float]) -> None:
        """Append one line to this rank's metrics."""
        if self._recorder is not None:
            self._recorder.log(step, samples, values)

    def flush(self) -> None:
        """Bring buffered lines to the disk."""
        if self._recorder is not None:
            self._recorder.flush()

    def close(self, error: BaseException | None = None) -> None:
        """Close this rank's metrics and leave its exit file.

        Args:
            error: what ended the run, if anything did.
        """
        if self._recorder is not None and self.path is not None:
            status = error.exit_status if isinstance(error, HemostatError) else 3 * int(error is not None)
            write_exit(self.path, self._rank, status, str(error or ""))
            self._recorder.close()
            self._recorder = None
