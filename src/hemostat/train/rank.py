"""What one rank process does, from its settings to its exit file; nothing leaves it as a traceback."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import msgspec

from hemostat.blame import said, user_line
from hemostat.config import decode
from hemostat.errors import FieldError, HemostatError, HemostatWarning, RecordError
from hemostat.recipe import Devices
from hemostat.task import load_task
from hemostat.track import write_exit
from hemostat.train.caps import announce_early
from hemostat.train.loop import train
from hemostat.train.settings import TrainSettings

_DEVICE_KEYS = Devices.__struct_fields__


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
    rest.pop("launch", None)  # of the launching command
    engine = rest.pop("train", {})
    if not isinstance(engine, Mapping):
        raise FieldError("train", engine, "is a section, not a value", "Write it like --set train.seed=3.")
    settings = decode(TrainSettings, engine, prefix="train.")
    if rest.get("micro_batch") == "auto":
        settings = msgspec.structs.replace(settings, find_micro_batch=True)
        del rest["micro_batch"]
        if "accumulation" in rest:
            raise FieldError(
                "accumulation",
                rest["accumulation"],
                "is found with micro_batch=auto",
                "Leave one of them out.",
            )
    devices = decode(Devices, {name: rest.pop(name) for name in _DEVICE_KEYS if name in rest})
    return rest, devices, settings


def run_rank(spec: str, values: Mapping[str, Any], ended: Callable[[Path], None] | None = None) -> int:
    """Train as one rank of a job and leave exit.<rank>.json in the run directory, if a launcher named one.

    Args:
        spec: "file.py:Class".
        values: TOML and --set, merged.
        ended: told the run directory after a good end, on rank 0.

    Returns:
        The exit status of this rank.
    """

    def work() -> None:
        rest, devices, settings = split_values(values)
        announce_early(settings)
        session = train(load_task(spec, rest), devices, settings)
        if ended is not None and session.world.rank == 0 and session.record.path is not None:
            ended(session.record.path)

    return as_rank(work)


def as_rank(work: Callable[[], None]) -> int:
    """Do a rank's work and leave exit.<rank>.json in the run directory, if a launcher named one.

    Returns:
        The exit status of this rank.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", HemostatWarning)
            warnings.showwarning = _note
            work()
    except HemostatError as error:
        return _leave(error.exit_status, str(error))
    except KeyboardInterrupt:
        return _leave(75, "interrupted twice; nothing was saved after the first signal")
    except Exception as error:  # noqa: BLE001 - the boundary: whatever the user's code raised ends here, in full
        return _leave(3, f"{user_line(error)}: {said(error)}", trace=traceback.format_exc())
    return _leave(0, "")


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings are notes of rank 0; others keep their place and line."""
    if not issubclass(category, HemostatWarning):
        print(
            warnings.formatwarning(message, category, filename, lineno, line), file=file or sys.stderr, end=""
        )
    elif os.environ.get("RANK", "0") == "0":
        print(f"note: {message}", file=file or sys.stderr)


def _leave(status: int, why: str, trace: str = "") -> int:
    rank = int(os.environ.get("RANK", "0"))
    try:
        run_dir = Path(os.environ["HEMOSTAT_RUN_DIR"])
        run_dir.mkdir(parents=True, exist_ok=True)
        if trace:
            (run_dir / f"traceback.{rank}.txt").write_text(trace, encoding="utf-8")
        write_exit(run_dir, rank, status, why)
    except (KeyError, OSError, RecordError):  # no launcher, or no disk: the terminal has to do
        if why:
            print(f"{trace}error: rank {rank}: {why}", file=sys.stderr)
    return status
