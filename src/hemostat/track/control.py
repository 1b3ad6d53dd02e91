"""control.json: how somebody outside asks a run to go on, pause or stop, at a number of samples."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Literal

import msgspec

from hemostat.errors import FieldError, HemostatWarning, RecordError
from hemostat.track.files import read_json, write_json

Action = Literal["go", "pause", "stop"]
ACTIONS: tuple[Action, ...] = ("go", "pause", "stop")
_FILE = "control.json"
_warned: set[tuple[str, int]] = set()


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is asked to do.

    Attributes:
        action: "go"; "pause" = save and leave, to be resumed; "stop" = save and end for good.
        at_samples: act as soon as this many samples have been consumed by all ranks; None = now.
        why: one sentence, for the record.
    """

    action: Action = "go"
    at_samples: int | None = None
    why: str = ""

    def due(self, samples: int) -> bool:
        """Tell whether a run that has consumed `samples` must act now.

        Examples:
            >>> Control(action="pause", at_samples=1000).due(999), Control(action="stop").due(0)
            (False, True)
        """
        return self.action != "go" and (self.at_samples is None or samples >= self.at_samples)


_GO = Control()


def control(run_dir: Path | None = None) -> Control:
    """Read what the run is asked to do; costs one failed `stat` while nothing is asked.

    Any script can take part, with or without the trainer: call this now and then on rank 0, and save and
    leave when `due(samples)` is true. control.json is an object with "action" ("go", "pause" or "stop"), and
    optionally "at_samples" (an integer) and "why". A file that is garbled, or names an unknown action, is
    reported once as a warning and otherwise counts as "go": a run is never lost to a typing error.

    Args:
        run_dir: the run directory; by default the environment variable HEMOSTAT_RUN_DIR. Without either,
            the answer is "go".

    Examples:
        >>> import pathlib, tempfile
        >>> control(pathlib.Path(tempfile.mkdtemp())).action
        'go'
    """
    folder = str(run_dir) if run_dir is not None else os.environ.get("HEMOSTAT_RUN_DIR")
    if not folder:
        return _GO
    path = f"{folder}/{_FILE}"
    try:
        stamp = os.stat(path).st_mtime_ns  # noqa: PTH116 - a Path costs more than the stat in the step loop
    except OSError:
        return _GO
    try:
        return msgspec.convert(read_json(Path(path)), Control)
    except FileNotFoundError:
        return _GO
    except (RecordError, msgspec.ValidationError) as error:
        if (path, stamp) not in _warned:
            _warned.add((path, stamp))
            warnings.warn(f"control={path!r}: ignored, {error}", HemostatWarning, stacklevel=2)
        return _GO


def write_control(run_dir: Path, action: str, at_samples: int | None = None, why: str = "") -> None:
    """Ask a run to go on, pause or stop.

    Args:
        run_dir: the run directory.
        action: "go", "pause" or "stop".
        at_samples: as in `Control`.
        why: one sentence.

    Raises:
        FieldError: an unknown action or a negative number of samples.
        RecordError: the folder cannot be written.
    """
    if action not in ACTIONS:
        raise FieldError("action", action, "must be one of go, pause, stop", "Write one of these.")
    if at_samples is not None and at_samples < 0:
        raise FieldError("at_samples", at_samples, "must be 0 or more", "Leave it out to act now.")
    asked = {"action": action, "at_samples": at_samples, "why": why}
    write_json(run_dir / _FILE, {key: item for key, item in asked.items() if item is not None})
