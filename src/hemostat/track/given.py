"""given.toml: what a run was started with, so that it can go on, or be started again, without its command line."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from hemostat.disk import recording
from hemostat.errors import RecordError
from hemostat.track.files import write_all

FILE = "given.toml"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was started with.

    Attributes:
        task: "file.py:Class", the file with its full path.
        num_ranks: processes.
        values: TOML and --set, merged.
    """

    task: str
    num_ranks: int
    values: dict[str, Any] = {}


def given_text(given: Given) -> str:
    """What given.toml says; it is a file for --config."""
    import tomli_w

    return tomli_w.dumps({**given.values, "launch": {"task": given.task, "num_ranks": given.num_ranks}})


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, since settings may hold secrets.

    Raises:
        RecordError: the disk refuses.
    """
    with recording(path):
        beside = path.with_suffix(".tmp")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            write_all(descriptor, text.encode())
        finally:
            os.close(descriptor)
        beside.replace(path)


def read_given(run_dir: Path) -> Given:
    """Read given.toml.

    Raises:
        RecordError: it is not there, as in a run of a loop of one's own, or it is garbled.
    """
    path = run_dir / FILE
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        launch = tree.pop("launch")
        return msgspec.convert({**launch, "values": tree}, Given)
    except FileNotFoundError:
        raise RecordError(
            f"run {run_dir.name} was not started by `hemostat train`. Start its own script again, with "
            f"TrainSettings(resume={run_dir.name!r})."
        ) from None
    except (OSError, tomllib.TOMLDecodeError, KeyError, msgspec.ValidationError) as error:
        raise RecordError(f"{path} cannot be read: {error}. Name the task and the settings anew.") from None
