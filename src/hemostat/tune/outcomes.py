"""Outcomes: what became of a trial's process, from its exit file, its summary and the end of its output."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec

from hemostat.track import RunRecord
from hemostat.tune.trial import Outcome

TAIL_BYTES = 16384
_MEMORY = re.compile(
    r"[^\n]*(?:out of memory|OutOfMemoryError|memory ran out|allocate memory|\bMemoryError|std::bad_alloc)[^\n]*",
    re.IGNORECASE,
)
# the launcher's guess about a SIGKILL: it may as well have been a person or a preemption, which teach nothing
_GUESS = re.compile(r" \(when nobody did that, the machine ran out of memory\)")
# torch and NCCL on a collective that never came back; the launcher on a rank that hangs
_LATE = re.compile(
    r"[^\n]*(?:timed out|TimeoutError|collective operation timeout|\bhangs in\b)[^\n]*", re.IGNORECASE
)
_NOT_FINITE = re.compile(r"not finite|never finite|\bnan\b|non-finite", re.IGNORECASE)
_GUARD, _BUDGET, _SAVED = 4, 5, 75
_SIGNALS = (128 + 1, 128 + 2, 128 + 15)  # SIGHUP, SIGINT, SIGTERM: the machine is taken away
_SAID_ABOVE = "what it said stands above"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller knows of a stretch that has ended.

    Attributes:
        status: exit status of the run.
        asked: it was told to leave before the end of its order.
        can_pause: it leaves with a checkpoint when it is asked to.
        is_whole: it reached the end of its run.
        reached: it reached the position of its order.
        last: its last value; None where there was none.
    """

    status: int
    asked: bool = False
    can_pause: bool = False
    is_whole: bool = False
    reached: bool = False
    last: float | None = None


def outcome_of(run_dir: Path, output: str, seen: Seen) -> tuple[Outcome, str]:
    """Tell how a stretch ended, and why in one sentence where it failed.

    Args:
        run_dir: the run directory.
        output: the end of what the stretch has printed.
        seen: what the controller knows.

    Returns:
        The sentence is the same for failures of the same kind, so that they can be counted.
    """
    status, why = RunRecord(run_dir).exit or (3, "its process is gone and left no word")
    why, output = (
        _sentence(_GUESS.sub("", why.replace(run_dir.name, "the run")), output),
        _GUESS.sub("", output),
    )
    if status == 0 and seen.status == 0:
        return _good(seen), ""
    if seen.asked:  # however it died of it
        return ("paused" if status == _SAVED and seen.can_pause else "stopped"), ""
    if status == _GUARD:
        if _NOT_FINITE.search(why):
            return "nan", why
        return ("diverged" if "the loss has" in why else "crash"), why
    if memory := _MEMORY.search(f"{why}\n{output}"):
        return "out_of_memory", _cut(memory[0])
    if status == _SAVED or status in _SIGNALS:
        return "preempted", why
    if status == _BUDGET:
        return "timeout", why
    if late := _LATE.search(f"{why}\n{output}"):
        return "timeout", _cut(late[0])
    return "crash", why


def _good(seen: Seen) -> Outcome:
    if seen.last is not None and not math.isfinite(seen.last):
        return "nan"
    if seen.is_whole:
        return "finished"
    if seen.can_pause and (seen.reached or seen.asked):
        return "paused"
    return "stopped" if seen.asked else "finished"


def _sentence(why: str, output: str) -> str:
    """The reason; where only the output has it, its last line too."""
    if _SAID_ABOVE not in why:
        return _cut(why)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("error: rank", "note: "))]
    return _cut(why.replace(_SAID_ABOVE, said[-1] if said else "it said nothing"))


def _cut(text: str) -> str:
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= 300 else f"{first[:297]}..."
