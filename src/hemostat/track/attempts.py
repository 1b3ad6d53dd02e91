"""`Attempt`: one process's part of a run, as the marks in its metrics file and its lines tell it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from hemostat.track.metrics import Line, read_raw

# time.monotonic() from which this attempt is paid for: the launch, or where the attempt before was last heard of
LAUNCHED: Final = "HEMOSTAT_LAUNCHED_S"


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of its own kind between those of the metrics.

    Attributes:
        attempt: "began" before its first line, "ended" after its last one; a process that was killed wrote none.
        time: of its launch, or of its end.
    """

    attempt: str
    time: float


class Attempt(msgspec.Struct, kw_only=True):
    """What one process wrote of a run.

    Attributes:
        began: when it was launched, by its own clock; None where it left no mark.
        ended: it came to its end and wrote what the run had spent until then.
        lines: in the order in which they were written.
    """

    began: float | None = None
    ended: bool = False
    lines: list[Line] = []

    @property
    def start(self) -> float:
        """When it was launched, or its first line where it did not say."""
        return self.began if self.began is not None else self.lines[0].time

    @property
    def last(self) -> float:
        """Its last line."""
        return max(self.start, self.lines[-1].time)


def read_attempts(run_dir: Path) -> list[Attempt]:
    """The attempts of a run that wrote anything, in their order, as rank 0 tells them.

    Their order is that of the file, never of a clock. Where marks are missing, samples that come again tell that
    another attempt has begun.
    """
    return [attempt for attempt in _split(run_dir / "metrics.0.jsonl") if attempt.lines]


_decode_mark = msgspec.json.Decoder(Mark).decode
_decode_line = msgspec.json.Decoder(Line).decode


def _split(path: Path) -> Iterator[Attempt]:
    now = Attempt(lines=[])
    for raw in read_raw(path):
        try:
            line = _decode_line(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            line = None
        if line is not None:
            if now.ended or (now.lines and line.samples < now.lines[-1].samples):
                yield now
                now = Attempt(lines=[])
            now.lines.append(line)
            continue
        try:
            mark = _decode_mark(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # torn by a kill
        if mark.attempt == "began":
            yield now
            now = Attempt(began=mark.time, lines=[])
        else:
            now.ended = True
    yield now


def seconds_after(run_dir: Path, samples: int | None) -> float:
    """Seconds that were spent after a checkpoint at `samples` and are lost by going back to it.

    The rest of the attempt that made it, and all of those that died after it; what lies between two attempts is no
    time of the run. Each attempt is measured by its own clock.

    Args:
        run_dir: the run directory.
        samples: None where there is no checkpoint: everything is lost.
    """
    attempts = read_attempts(run_dir)
    if samples is None:
        return sum(attempt.last - attempt.start for attempt in attempts)
    for index in reversed(range(len(attempts))):
        attempt = attempts[index]
        if any(line.samples <= samples and "loss" in line.values for line in attempt.lines):
            at = [line.time for line in attempt.lines if line.samples <= samples][-1]
            later = attempts[index + 1 :]
            return max(0.0, attempt.last - at) + sum(other.last - other.start for other in later)
    return 0.0


def median_step_s(run_dir: Path) -> float | None:
    """Median seconds from one recorded step to the next, within attempts; None for fewer than three steps.

    The first step of an attempt is left out, since it makes buffers; pauses for an evaluation or a checkpoint are
    outliers that a median does not see.
    """
    gaps = []
    for attempt in read_attempts(run_dir):
        times = [line.time for line in attempt.lines if "loss" in line.values]
        gaps += [later - before for before, later in pairwise(times)][1:]
    return statistics.median(gaps) if gaps else None


def since_launch() -> float:
    """Seconds from the launching process's start of this attempt to now; 0 where nobody said."""
    text = os.environ.get(LAUNCHED, "")
    return max(0.0, time.monotonic() - float(text)) if text else 0.0
