"""What one rank process does, from its settings to its exit file; nothing leaves it as a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hemostat.config import decode
from hemostat.errors import HemostatError, RecordError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.task.blame import said, user_line
from hemostat.track import write_exit
from hemostat.train.loop import train
from hemostat.train.settings import TrainSettings

_BATCH_KEYS = ("global_batch", "micro_batch", "accumulation")


def split_values(values: Mapping[str, Any]) -> tuple[dict[str, Any], Devices, TrainSettings]:
    """Sort settings by whom they are for: the task and its hyper-parameters, the batch, the engine.

    Raises:
        FieldError: a value that the batch or the engine cannot have.

    Examples:
        >>> task, devices, settings = split_values({"lr": 0.1, "global_batch": 64, "train": {"seed": 3}})
        >>> task, devices.global_batch, settings.seed
        ({'lr': 0.1}, 64, 3)
    """
    rest = dict(values)
    settings = decode(TrainSettings, rest.pop("train", {}), prefix="train.")
    devices = decode(Devices, {name: rest.pop(name) for name in _BATCH_KEYS if name in rest})
    return rest, devices, settings


def run_rank(spec: str, values: Mapping[str, Any]) -> int:
    """Train as one rank of a job and leave exit.<rank>.json in the run directory.

    Args:
        spec: "file.py:Class".
        values: TOML and --set, merged.

    Returns:
        The exit status of this rank.
    """
    try:
        rest, devices, settings = split_values(values)
        train(load_task(spec, rest), devices, settings)
    except HemostatError as error:
        return _leave(error.exit_status, str(error))
    except KeyboardInterrupt:
        return _leave(75, "interrupted twice; nothing was saved after the first signal")
    except Exception as error:  # noqa: BLE001 - the boundary: whatever the user's code raised ends here, in full
        _keep_traceback()
        return _leave(3, f"{user_line(error)}: {said(error)}")
    return _leave(0, "")


def _leave(status: int, why: str) -> int:
    rank = int(os.environ.get("RANK", "0"))
    run_dir = os.environ.get("HEMOSTAT_RUN_DIR")
    if run_dir is None:
        if why:
            print(f"error: rank {rank}: {why}", file=sys.stderr)
        return status
    try:
        Path(run_dir).mkdir(parents=True, exist_ok=True)
        write_exit(Path(run_dir), rank, status, why)
    except (OSError, RecordError) as error:
        print(f"error: rank {rank}: {why} (and its exit file could not be written: {error})", file=sys.stderr)
    return status


def _keep_traceback() -> None:
    run_dir = os.environ.get("HEMOSTAT_RUN_DIR")
    rank = os.environ.get("RANK", "0")
    text = traceback.format_exc()
    if run_dir is None:
        print(text, file=sys.stderr)
        return
    try:
        (Path(run_dir) / f"traceback.{rank}.txt").write_text(text, encoding="utf-8")
    except OSError:
        print(text, file=sys.stderr)
