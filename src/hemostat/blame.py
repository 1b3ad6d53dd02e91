"""Where in the user's own files an exception was raised, and on which rank."""

from __future__ import annotations

import os
import platform
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_NOT_THE_USERS: Final = (
    str(Path(__file__).parent) + os.sep,
    sysconfig.get_paths()["stdlib"] + os.sep,
    sysconfig.get_paths()["platstdlib"] + os.sep,
    "<frozen",
)


def user_line(error: BaseException) -> str:
    """`file:line` of the innermost frame that is neither Python's, nor an installed package's, nor ours.

    The path is relative where it lies under the current directory. Without such a frame the innermost one is
    named, and without any frame the text is empty.
    """
    return own_line(error) or next(map(_place, _frames(error)), "")


def own_line(error: BaseException) -> str:
    """As `user_line`, but empty where no frame is the user's."""
    return next((_place(frame) for frame in _frames(error) if not _is_foreign(frame.filename)), "")


def defined_at(function: Callable[..., Any]) -> str:
    """`file:line` where a function begins; empty for one that is not written in Python."""
    code = getattr(function, "__code__", None)
    return f"{shown(code.co_filename)}:{code.co_firstlineno}" if code else ""


def on_rank() -> str:
    """ " on rank 1 of 2 (host node-7)" in a job of several processes, else ""."""
    rank, num_ranks = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "1")
    if not rank or num_ranks == "1":
        return ""
    return f" on rank {rank} of {num_ranks} (host {platform.node()})"


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The innermost first."""
    return traceback.extract_tb(error.__traceback__)[::-1]


def _place(frame: traceback.FrameSummary) -> str:
    return f"{shown(frame.filename)}:{frame.lineno}"


def shown(path: str | Path) -> str:
    """A path as the user would write it from here."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def said(error: BaseException) -> str:
    """Type and first line of an exception: "KeyError: 'image'"."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_foreign(filename: str) -> bool:
    if "site-packages" in filename or "dist-packages" in filename:
        return True
    return filename.startswith(_NOT_THE_USERS)
