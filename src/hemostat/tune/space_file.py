"""Space file: a space as TOML, read and written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hemostat.config import read_toml
from hemostat.errors import FieldError, UnknownNameError
from hemostat.tune.space import Choice, Integer, Parameter, Real, Space

_KEYS: Final = ("high", "log", "low", "values", "when")
_FIX: Final = "Write low=1e-4 and high=1e-1, or values=[16, 32]."


def read_space(path: Path) -> Space:
    """Read a space.

    Raises:
        FieldError: no such file, no TOML, or something in it has no meaning.
        UnknownNameError: a key that a parameter does not have.
    """
    return space_from(read_toml(path))


def space_from(values: Mapping[str, Any]) -> Space:
    """A space from its plain form.

    Args:
        values: a table for each parameter (`low` and `high`, whole numbers for an integer, or `values`; `log` and
            `when` where they are needed) or its list of values, `constraints` (texts, or tables with `holds`) and
            `start`.

    Raises:
        FieldError: something in it has no meaning.
        UnknownNameError: a key that a parameter does not have.

    Examples:
        >>> space_from({"lr": {"low": 1e-4, "high": 0.1}, "optimizer": ["sgd", "adamw"]}).names
        ('lr', 'optimizer')
    """
    rest = dict(values)
    constraints, start = rest.pop("constraints", []), rest.pop("start", None)
    if not isinstance(constraints, list):
        raise FieldError("constraints", constraints, "must be a list", 'Write constraints = ["batch <= 64"].')
    texts = tuple(_constraint(each) for each in constraints)
    return Space(tuple(_parameter(name, form) for name, form in _flat(rest).items()), texts, start)


def space_values(space: Space) -> dict[str, Any]:
    """The plain form of a space, which `space_from` reads.

    Examples:
        >>> space_values(Space((Real("lr", 1e-4, 0.1),), start={"lr": 0.01}))
        {'start': {'lr': 0.01}, 'lr': {'low': 0.0001, 'high': 0.1}}
    """
    plain: dict[str, Any] = {}
    if space.constraints:
        plain["constraints"] = list(space.constraints)
    if space.start:
        plain["start"] = dict(space.start)
    for parameter in space.parameters:
        if isinstance(parameter, Choice):
            form: dict[str, Any] = {"values": list(parameter.values)}
        elif isinstance(parameter, Real):
            form = {"low": float(parameter.low), "high": float(parameter.high), "log": parameter.log}
        else:
            form = {"low": parameter.low, "high": parameter.high, "log": parameter.log}
        form["when"] = parameter.when
        plain[parameter.name] = {key: value for key, value in form.items() if value is not None}
    return plain


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables in tables are dotted names: [train.lr] is the parameter train.lr."""
    flat: dict[str, Any] = {}
    for name, form in tree.items():
        if isinstance(form, Mapping) and form and all(isinstance(each, Mapping) for each in form.values()):
            flat.update(_flat(form, f"{prefix}{name}."))
        else:
            flat[f"{prefix}{name}"] = form
    return flat


def _constraint(form: Any) -> str:
    text = form.get("holds") if isinstance(form, Mapping) else form
    if not isinstance(text, str):
        fix = 'Write "micro_batch * accumulation <= 1024", or a table with holds="...".'
        raise FieldError("constraints", form, "is no text", fix)
    return text


def _parameter(name: str, form: Any) -> Parameter:
    if isinstance(form, list):
        return Choice(name, tuple(form))
    if not isinstance(form, Mapping):
        raise FieldError(name, form, "is neither a range nor a list of values", _FIX)
    for key in form:
        if key not in _KEYS:
            raise UnknownNameError(name, key, _KEYS)
    when = form.get("when")
    if when is not None and not isinstance(when, str):
        raise FieldError(f"{name}.when", when, "must be a text", "Write when=\"optimizer == 'sgd'\".")
    if "values" in form:
        if not isinstance(form["values"], list) or {"low", "high", "log"} & form.keys():
            raise FieldError(name, dict(form), "must have a list of values, or a range", _FIX)
        return Choice(name, tuple(form["values"]), when)
    if "low" not in form or "high" not in form:
        raise FieldError(name, dict(form), "needs low and high, or values", _FIX)
    log = form.get("log")
    if log is not None and not isinstance(log, bool):
        raise FieldError(f"{name}.log", log, "must be true or false", "Leave it out: the name decides.")
    low, high = form["low"], form["high"]
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (low, high))
    return Integer(name, low, high, log, when) if whole else Real(name, low, high, log, when)
