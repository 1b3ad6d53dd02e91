"""Samples of a run: text and PNG files in `samples/` of its directory, named after the step they were made at."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hemostat.disk import recording
from hemostat.errors import RecordError

_FOLDER = "samples"
_NAME = re.compile(r"step-(\d+)\.(.+)\.(txt|png)")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a task's `show()` returned at an evaluation.

    Attributes:
        step: optimizer step of the evaluation.
        name: the key of a dict, else a number.
        path: the file.
        text: its content; None for a picture.
    """

    step: int
    name: str
    path: str
    text: str | None = None


def write_sample(run_dir: Path, step: int, name: str, content: str | bytes) -> Path:
    """Keep one sample; one of the same step and name is replaced.

    Args:
        run_dir: the run directory.
        step: optimizer step.
        name: what tells the samples of a step apart; characters that a file name cannot have become `_`.
        content: text, or the bytes of a PNG.

    Raises:
        RecordError: the folder cannot be written.
    """
    safe = re.sub(r"[^\w-]+", "_", name)[:40] or "_"
    path = run_dir / _FOLDER / f"step-{step:08d}.{safe}.{'txt' if isinstance(content, str) else 'png'}"
    with recording(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(errors="replace") if isinstance(content, str) else content)
    return path


def read_samples(run_dir: Path) -> list[Sample]:
    """All samples of a run, in order of step and name.

    Raises:
        RecordError: a file cannot be read.
    """
    found = []
    for path in (run_dir / _FOLDER).glob("step-*"):
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        text = None
        if match[3] == "txt":
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise RecordError(f"record={str(path)!r}: cannot be read, {error.strerror}.") from None
        found.append(Sample(step=int(match[1]), name=match[2], path=str(path), text=text))
    return sorted(found, key=lambda sample: (sample.step, _number(sample.name)))


def _number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (-1, name)
