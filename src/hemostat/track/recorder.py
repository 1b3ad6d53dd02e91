"""Recorder: appends one line per record to metrics.<rank>.jsonl, cheaply, and so that kill -9 loses none."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import msgspec

from hemostat.disk import recording
from hemostat.errors import RecordError
from hemostat.track.attempts import Mark, since_launch
from hemostat.track.files import write_all


class Recorder:
    """Append-only metrics of one rank.

    A line is `{"step": int, "samples": int, "time": seconds since 1970, "values": {name: number}}`. JSON has
    no NaN, so non-finite numbers are the strings "nan", "inf" and "-inf"; the reader turns them back. Before the
    first line and after the last one stands a mark of this attempt (attempts.py). Times count from the wall clock at
    the start, so that a clock that is set meanwhile lengthens and shortens nothing.

    Each line leaves with one `write` of its own: measured 1.1 us more than a buffer (bench/record.py), and
    nothing sits in a buffer while a process hangs, forks or is killed. `flush` therefore means "on the
    medium" (fsync), for the moment before a checkpoint is declared good.

    Args:
        run_dir: the run directory; it must exist.
        rank: global rank.

    Raises:
        RecordError: the file cannot be opened or written (full disk, read-only, not permitted).

    Examples:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> with Recorder(folder, rank=0) as recorder:
        ...     recorder.log(1, 32, {"loss": 2.5})
        >>> _, line, _ = (folder / "metrics.0.jsonl").read_text().splitlines()  # between start and end
        >>> line.partition('"values":')[2]
        '{"loss":2.5}}'
    """

    def __init__(self, run_dir: Path, rank: int) -> None:
        self.path = Path(run_dir) / f"metrics.{rank}.jsonl"
        self._encode = msgspec.json.Encoder().encode
        self._clock_s = time.time() - time.monotonic()
        self._began = self._now() - since_launch()
        self._is_marked = False
        with recording(self.path):
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._seal_torn_line()

    def _seal_torn_line(self) -> None:
        # a run that was killed in the middle of a line is resumed in the same file
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            write_all(self._descriptor, b"\n")

    def log(self, step: int, samples: int, values: Mapping[str, float]) -> None:
        """Record numbers.

        Args:
            step: applied optimizer steps so far.
            samples: samples consumed by all ranks so far.
            values: name to number (anything that `float` takes).

        Raises:
            RecordError: the disk is full, or the recorder was closed.
        """
        if self._descriptor < 0:
            raise RecordError(f"record={str(self.path)!r}: is closed. Log before close().")
        numbers = {name: _number(value) for name, value in values.items()}
        if not self._is_marked:
            self._mark("began", self._began)
            self._is_marked = True
        line = self._encode({"step": step, "samples": samples, "time": self._now(), "values": numbers})
        try:
            written = os.write(self._descriptor, line + b"\n")
        except OSError:
            written = 0
        if written <= len(line):
            with recording(self.path):  # again, to finish the line or to hear the reason
                write_all(self._descriptor, (line + b"\n")[written:])

    def _now(self) -> float:
        return self._clock_s + time.monotonic()

    def _mark(self, attempt: str, moment: float) -> None:
        with recording(self.path):
            write_all(self._descriptor, self._encode(Mark(attempt=attempt, time=moment)) + b"\n")

    def flush(self) -> None:
        """Wait until what was logged is on the medium.

        Raises:
            RecordError: the medium refuses.
        """
        if self._descriptor >= 0:
            with recording(self.path):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Mark the end of this attempt and close the file; a second call does nothing."""
        if self._is_marked and self._descriptor >= 0:
            with contextlib.suppress(RecordError):  # on a full disk; then it counts as killed
                self._mark("ended", self._now())
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _number(value: float) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else str(number)
