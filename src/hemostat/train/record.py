"""The run's record as the engine sees it: one directory for all ranks, a header, metrics and an outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hemostat.errors import FieldError, HemostatError, RecordError
from hemostat.track import Recorder, RunRecord, create_run, load_run, new_run_id, update_run, write_exit
from hemostat.train.data_watch import DataWatch
from hemostat.train.process import World

DEFAULT_ROOT = Path(".hemostat") / "runs"


class Record:
    """Joins or makes the run directory and writes to it.

    The launcher hands the directory down in HEMOSTAT_RUN_DIR; under plain torchrun rank 0 picks the id and the
    others are told. Only rank 0 writes run.json, every rank has a metrics file of its own.

    Args:
        world: the ranks.
        enabled: False records nothing and makes no directory.
        resume: a run to go on with: its id, the start of it, or "last"; None starts a new one.

    Attributes:
        path: the run directory; its name is the run id.
        describes: this rank writes run.json.
        resumes: the run goes on from a checkpoint: it was asked for, or the launcher has restarted the ranks.

    Raises:
        RecordError: the directory cannot be made or written; raised on all ranks.
    """

    def __init__(self, world: World, enabled: bool = True, resume: str | None = None) -> None:
        self._rank = world.rank
        self.describes = enabled and world.rank == 0
        self._recorder: Recorder | None = None
        self._watch: DataWatch | None = None
        self._claimed = ExitStack()
        self.path: Path | None = None
        self.resumes = resume is not None or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        if not enabled:
            if resume is not None:
                raise FieldError("train.resume", resume, "needs a record", "Leave out train.record=false.")
            self.resumes = False
            return
        trouble, given = "", ""
        try:
            given = os.environ.get("HEMOSTAT_RUN_DIR") or str(_run_dir(resume))
        except HemostatError as error:
            trouble = str(error)
        self.path = Path(world.from_rank_zero(given))
        try:
            if trouble:
                raise RecordError(trouble)
            create_run(self.path.parent, self.path.name, {})
            self._recorder = Recorder(self.path, world.rank)
        except RecordError as error:
            trouble = str(error)
        if world.sum([float(bool(trouble))])[0] > 0:
            raise RecordError(trouble or f"another rank could not write {self.path}")

    def claim(self, world: World) -> None:
        """Keep every other process from running this run until `close`; a launcher has done so for its ranks.

        Raises:
            RecordError: another one runs it; raised on all ranks.
        """
        trouble: RecordError | None = None
        if self.path is not None and self._rank == 0 and "HEMOSTAT_RUN_DIR" not in os.environ:
            try:
                self._claimed.enter_context(RunRecord(self.path).claim())
            except RecordError as error:
                trouble = error
        if world.sum([float(trouble is not None)])[0] > 0:
            raise trouble or RecordError(f"rank 0 could not claim {self.path}")

    def abandon(self) -> None:
        """Give the run free without a word: it has not begun."""
        self._claimed.close()

    def spent_s(self, samples: int, spent_s: float) -> float:
        """Training time of the attempts so far, with what came after the checkpoint and was lost.

        Args:
            samples: where the checkpoint is.
            spent_s: training time up to it.
        """
        if self.path is None:
            return spent_s
        record = RunRecord(self.path)
        summed = record.header.get("summary", {}).get("train_s", 0.0)
        return max(float(summed), spent_s + record.seconds_after(samples))

    def header(self, fields: Callable[[], Mapping[str, Any]]) -> None:
        """Add fields to run.json; on ranks above 0 they are not even computed.

        A `DataWatch` under "data" is started: it fills that section while the run goes on.
        """
        if not self.describes or self.path is None:
            return
        found = dict(fields())
        watch = found.get("data")
        if isinstance(watch, DataWatch):
            self._watch, found["data"] = watch, watch.known
        update_run(self.path, **found)
        if isinstance(watch, DataWatch):
            watch.start(self.path)

    def log(self, step: int, samples: int, values: Mapping[str, float]) -> None:
        """Append one line to this rank's metrics."""
        if self._recorder is not None:
            self._recorder.log(step, samples, values)

    def flush(self) -> None:
        """Bring buffered lines to the disk."""
        if self._recorder is not None:
            self._recorder.flush()

    def close(self, error: BaseException | None = None) -> None:
        """End the hashing of the data, close this rank's metrics and leave its exit file.

        Args:
            error: what ended the run, if anything did.
        """
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._recorder is not None and self.path is not None:
            status = error.exit_status if isinstance(error, HemostatError) else 3 * int(error is not None)
            write_exit(self.path, self._rank, status, str(error or ""))
            self._recorder.close()
            self._recorder = None
        self._claimed.close()


def _run_dir(resume: str | None) -> Path:
    return DEFAULT_ROOT / new_run_id() if resume is None else load_run(DEFAULT_ROOT, resume).path
