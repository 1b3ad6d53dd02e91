"""Evaluations of a finished run: one folder each in `evaluations/`, never changed, so that looks can be counted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hemostat.disk import recording
from hemostat.errors import RecordError
from hemostat.track.files import read_json, write_json

_FOLDER = "evaluations"
_FILE = "result.json"


def evaluation_dir(run_dir: Path, evaluation_id: str) -> Path:
    """The folder of one evaluation."""
    return run_dir / _FOLDER / evaluation_id


def write_evaluation(run_dir: Path, evaluation_id: str, fields: Mapping[str, Any]) -> None:
    """Record an evaluation.

    Args:
        run_dir: the run directory.
        evaluation_id: from `new_run_id`.
        fields: plain values; "split" is what the looks are counted by.

    Raises:
        RecordError: the folder cannot be written.
    """
    path = evaluation_dir(run_dir, evaluation_id) / _FILE
    with recording(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"id": evaluation_id, "time": time.time(), **fields})


def read_evaluations(run_dir: Path) -> list[dict[str, Any]]:
    """All evaluations of a run, oldest first; one whose file is garbled or missing is left out."""
    found = []
    for path in (run_dir / _FOLDER).glob(f"*/{_FILE}"):
        try:
            found.append(read_json(path))
        except (RecordError, FileNotFoundError):
            continue
    return sorted(found, key=lambda fields: float(fields.get("time", 0.0)))
