"""Comparing the plain values of a checkpoint with those that this version would write, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hemostat.errors import RecordError

# what is inside of these depends on the task, on settings or on the past
_FREE: Final = ("recipe", "last", "attempts", "outcome.final", "outcome.findings", "guards.said")
_CHOSEN: Final = ("guards.guards",)  # those that were on; each of them has a form
_ABSENT: Final = ("scaler", "rng.cuda")  # of another precision, of another device
_SHOWN: Final = 4


def check_form(found: Any, expected: Mapping[str, Any], where: str) -> None:
    """Refuse values whose keys or kinds are not those that this version writes.

    Args:
        found: as they were read.
        expected: as this version writes them; a value of None stands for any.
        where: named in the message.

    Raises:
        RecordError: keys that are missing, that are not known, or that hold another kind of value.

    Examples:
        >>> check_form({"step": 3, "noise": {"signal": 0.5}}, {"step": 0, "noise": {"signal": 0.0}}, "state.json")
    """
    missing, strange, other = _differences(found, expected, "")
    parts = [f"it lacks {_few(missing)}"] * bool(missing)
    parts += [f"it has {_few(strange)}, which this hemostat does not know"] * bool(strange)
    parts += [f"{_few(other)} of another kind"] * bool(other)
    if parts:
        raise RecordError(
            f"{where} is not the state that this hemostat writes: {'; '.join(parts)}. Resume with the version that "
            "wrote it, or from an older checkpoint."
        )


def _differences(found: Any, expected: Any, path: str) -> tuple[list[str], list[str], list[str]]:
    """(missing, unknown, of another kind)."""
    if expected is None or path in _FREE:
        return [], [], []
    if found is None and (path in _ABSENT or not isinstance(expected, Mapping)):
        return [], [], []
    if not isinstance(expected, Mapping):
        kinds = (int, float) if isinstance(expected, int | float) else type(expected)
        return [], [], [] if isinstance(found, kinds) else [path]
    if not isinstance(found, Mapping):
        return [], [], [path or "the whole"]
    full = {key: f"{path}.{key}" if path else key for key in (*expected, *found)}
    missing = (
        []
        if path in _CHOSEN
        else [full[key] for key in expected if key not in found and full[key] not in _ABSENT]
    )
    strange = [] if path in _CHOSEN else [full[key] for key in found if key not in expected]
    other: list[str] = []
    for key in expected:
        if key in found:
            more = _differences(found[key], expected[key], full[key])
            missing, strange, other = missing + more[0], strange + more[1], other + more[2]
    return missing, strange, other


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
