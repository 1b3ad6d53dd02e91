"""Who reads the data: the training thread, threads or processes, decided by what the first batches cost."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from itertools import islice
from types import ModuleType
from typing import Any, Final, NamedTuple

import torch

from hemostat.config import Config
from hemostat.data.checks import check_count
from hemostat.errors import FieldError, UnknownNameError
from hemostat.units import format_seconds

MODES: Final = ("none", "threads", "processes")
MOST_PER_CORE: Final = 16  # as the launcher allows processes; threads that wait for a far disk may be many
_HEEDED: Final = {
    "num": ("threads", "processes"),
    "stall_s": ("threads", "processes"),
    "depth": ("threads",),
}
# Costs in this file: measured by bench/data_costs.py on 2026-11-30 (2 cores, other work beside it).
CHEAP_S: Final = 150e-6  # a hop between threads cost 29 to 121 us, so cheaper fetches stay here
CHEAP_SHARE: Final = 0.03
DEAR_S: Final = 3e-3  # a hop between processes cost 0.8 to 1.2 ms, so it is worth it from here on
GAIN: Final = 1.3  # of two threads over one: convention; smaller ones were within the noise of a busy machine
FORK_GAIN: Final = 1.15  # of two processes over one thread: convention; below it there is no core for them
_MARGIN: Final = 1.5  # readers per reader that is needed on average
_MOST: Final = 16
_FILE_KINDS: Final = ("h5py", "zipfile", "tarfile", "lmdb")
_DEEP: Final = 3
_MANY: Final = 64  # items of a list that are looked at: shards are alike


class Workers(Config, frozen=True, kw_only=True):
    """Who reads ahead, under `[train.workers]` in TOML and `--set train.workers.NAME=VALUE`.

    Attributes:
        mode: "none" (the training thread reads), "threads" or "processes"; None measures and chooses.
        num: threads or processes of one rank; None derives it from the cores and the speed of the step.
        depth: batches that may be ready or under way with threads; None is twice their number.
        stall_s: a reader that has not answered for so long is named and replaced; None is 30 s, or 20 fetches
            where those last longer.

    Raises:
        FieldError: a number that breaks a rule, or one that the mode would ignore.
        UnknownNameError: a mode that is not known.
    """

    mode: str | None = None
    num: int | None = None
    depth: int | None = None
    stall_s: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.mode is not None and self.mode not in MODES:
            raise UnknownNameError("train.workers.mode", str(self.mode), MODES)
        for name in ("num", "depth"):
            if getattr(self, name) is not None:
                check_count(f"train.workers.{name}", getattr(self, name))
        if self.stall_s is not None and not self.stall_s > 0:
            raise FieldError(
                "train.workers.stall_s", self.stall_s, "must be above 0", "Leave it out to derive it."
            )
        for name, modes in _HEEDED.items():
            value = getattr(self, name)
            if value is not None and self.mode is not None and self.mode not in modes:
                fix = f"Leave it out, or use {' or '.join(modes)}."
                raise FieldError(f"train.workers.{name}", value, f"means nothing with mode={self.mode}", fix)
        most = max(1, MOST_PER_CORE * num_cores() // num_local_ranks())
        if self.num is not None and self.num > most:
            rule = f"is more than the {most} that {num_cores()} cores allow one of {num_local_ranks()} ranks here"
            raise FieldError("train.workers.num", self.num, rule, "Leave it out to derive it.")

    def check_fork(self) -> None:
        """Refuse worker processes where none may be started now; a device may have come into use.

        Raises:
            FieldError: with the reason.
        """
        if self.mode == "processes" and (fault := fork_fault()):
            raise FieldError("train.workers.mode", "processes", f"needs fork: {fault}", "Use threads.")


class Choice(NamedTuple):
    """Who reads, and why, in one sentence."""

    mode: str
    num: int
    why: str


class Measured(NamedTuple):
    """What the first batches of a run have shown.

    Attributes:
        fetch_s: median of one batch in the training thread.
        step_s: median from a batch to the next request, that is, the work of the step.
        gain: throughput of two threads over one; None where that was not looked at.
        forked: throughput of two processes over one thread; None where that was not looked at.
        repeats: two readings of the same samples were equal.
        handle: why only one may read, as "Rows.file is an open file", else "".
        no_fork: why no process may be forked, else "".
    """

    fetch_s: float
    step_s: float
    gain: float | None = None
    forked: float | None = None
    repeats: bool = True
    handle: str = ""
    no_fork: str = ""


def is_cheap(seen: Measured) -> bool:
    """No reading ahead pays."""
    return seen.fetch_s <= max(CHEAP_S, CHEAP_SHARE * seen.step_s)


def may_fork(seen: Measured) -> bool:
    """Processes are worth looking at."""
    alone = (seen.gain or 1.0) < GAIN or not seen.repeats
    return alone and seen.fetch_s >= DEAR_S and not seen.handle and not seen.no_fork


def choose(seen: Measured, most: int) -> Choice:
    """The rule of docs/data.md.

    Args:
        seen: what was measured.
        most: readers that the cores allow.

    Examples:
        >>> choose(Measured(fetch_s=40e-6, step_s=2e-3), most=4)
        Choice(mode='none', num=0, why='a batch costs 40.0 us, less than handing it over')
        >>> choose(Measured(fetch_s=35e-3, step_s=10e-3, gain=1.9), most=4).why
        'a batch costs 35.0 ms, two threads read 1.9 times as fast as one'
        >>> choose(Measured(fetch_s=35e-3, step_s=10e-3, gain=0.9), most=4)[:2]
        ('processes', 4)
    """
    cost = f"a batch costs {format_seconds(seen.fetch_s)}"
    if is_cheap(seen):
        small = seen.fetch_s <= CHEAP_S
        return Choice("none", 0, f"{cost}, {'less than handing it over' if small else 'under 3 % of a step'}")
    need = max(1, min(most, _MOST, int(_MARGIN * seen.fetch_s / max(seen.step_s, 1e-9)) + 1))
    if seen.handle:
        return Choice("threads", 1, f"{cost}; one reader only: {seen.handle}")
    parallel = (seen.gain or 1.0) >= GAIN
    if parallel and seen.repeats:
        if need == 1:
            return Choice(
                "threads", 1, f"{cost}, and one thread keeps up with steps of {format_seconds(seen.step_s)}"
            )
        return Choice("threads", need, f"{cost}, two threads read {seen.gain:.2g} times as fast as one")
    why = (
        f"{cost} of work that holds the GIL"
        if seen.repeats
        else f"{cost}, and reading the same samples twice gave other values (random)"
    )
    if seen.no_fork and may_fork(seen._replace(no_fork="")):
        return Choice("threads", 1, f"{why}; no worker processes: {seen.no_fork}")
    slow = seen.forked is not None and seen.forked < FORK_GAIN
    if may_fork(seen) and not slow:
        return Choice("processes", need, why)
    if slow:
        why = f"{why}; processes read only {seen.forked:.2g} times as fast (no core is free)"
    if seen.step_s < CHEAP_S:
        return Choice("none", 0, f"{why}, and steps of {format_seconds(seen.step_s)} hide nothing")
    return Choice("threads", 1, f"{why}{'' if slow else '; too cheap for processes'}")


def fork_fault() -> str:
    """Why no worker process may be forked from this one now, else "".

    Other ways to start one would import torch and the user's script again and need data that pickle.
    """
    if not hasattr(os, "fork"):
        return "this system has none"
    if sys.platform == "darwin":
        return "a fork is not safe on macOS, whose frameworks keep threads"
    for name in ("cuda", "xpu"):
        if getattr(torch, name).is_initialized():
            return f"{name} is in use in this process, and its state does not survive a fork"
    return ""


def readers_allowed() -> int:
    """Threads or processes that one rank may use: the cores less one per rank, shared by the ranks here."""
    ranks = num_local_ranks()
    return max(2 if ranks == 1 else 1, (num_cores() - ranks) // ranks)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)


def num_local_ranks() -> int:
    """Ranks of this job on this machine."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1))


def open_handle(dataset: Any, deep: int = _DEEP) -> str:
    """Where a data set holds an open file, whose position threads and forks would share; else "".

    Attributes are searched, lists and dicts in them, and objects in those, `deep` levels down.

    Examples:
        >>> import io, types
        >>> open_handle(types.SimpleNamespace(shards=[1, io.BytesIO()]))
        'SimpleNamespace.shards holds an open file'
    """
    for name, value in getattr(dataset, "__dict__", {}).items():
        if _is_open(value):
            return f"{type(dataset).__name__}.{name} is an open file"
        parts = (
            value.values()
            if isinstance(value, dict)
            else value
            if isinstance(value, list | tuple)
            else [value]
        )
        for part in islice(parts, _MANY):
            if _is_open(part):
                return f"{type(dataset).__name__}.{name} holds an open file"
            opaque = isinstance(part, type | ModuleType | torch.Tensor | torch.nn.Module) or callable(part)
            found = "" if opaque or not deep else open_handle(part, deep - 1)
            if found:
                return found
    return ""


def _is_open(value: Any) -> bool:
    kind = type(value).__module__.partition(".")[0]
    return isinstance(value, io.IOBase | sqlite3.Connection) or kind in _FILE_KINDS
