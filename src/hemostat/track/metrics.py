"""Reads metrics.<rank>.jsonl back: merged over ranks, torn lines skipped, NaN and infinities restored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of metrics; non-finite values are strings in the file."""

    step: int
    samples: int
    values: dict[str, float | str]
    time: float = 0.0


_decode = msgspec.json.Decoder(Line).decode


def metric_files(run_dir: Path) -> list[Path]:
    """List the metrics files in rank order."""
    ranks = {path.name.split(".")[1]: path for path in run_dir.glob("metrics.*.jsonl")}
    return [ranks[rank] for rank in sorted(filter(str.isdecimal, ranks), key=int)]


def read_lines(path: Path) -> Iterator[Line]:
    """Read one file; a line that is torn or garbled is skipped, since a kill can leave one anywhere."""
    for raw in read_raw(path):
        try:
            yield _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue


def read_raw(path: Path) -> list[bytes]:
    """Every line of one file as it is; none where there is no file."""
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []


def read_metric(run_dir: Path, name: str) -> list[tuple[int, int, float]]:
    """Read one metric as (step, samples, value), in order of samples.

    A run that was killed and resumed goes back to its checkpoint: what the lost attempt wrote beyond that
    point is dropped. Where several ranks wrote the same metric at the same samples, the lowest rank speaks.
    The order is that of the samples, never of the clock, which may jump backwards.
    """
    merged: dict[int, tuple[int, int, float]] = {}
    for path in reversed(metric_files(run_dir)):
        for point in _rewound(path, name):
            merged[point[1]] = point
    return [merged[samples] for samples in sorted(merged)]


def _rewound(path: Path, name: str) -> list[tuple[int, int, float]]:
    points: list[tuple[int, int, float]] = []
    for line in read_lines(path):
        if name in line.values:
            while points and points[-1][1] >= line.samples:
                points.pop()
            points.append((line.step, line.samples, float(line.values[name])))
    return points


def metric_names(run_dir: Path) -> list[str]:
    """List the names of all metrics that any rank wrote."""
    names = {name for path in metric_files(run_dir) for line in read_lines(path) for name in line.values}
    return sorted(names)


def last_position(run_dir: Path) -> tuple[int, int] | None:
    """Read the largest (step, samples) from the ends of the files, without reading the whole of them."""
    best: tuple[int, int] | None = None
    for path in metric_files(run_dir):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16384))
            tail = file.read().splitlines()
        for raw in reversed(tail):
            try:
                line = _decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            best = max(best or (0, 0), (line.step, line.samples), key=lambda pair: pair[1])
            break
    return best
