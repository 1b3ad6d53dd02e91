"""The space of a study: from a TOML file, or proposed from the recipe of a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hemostat.cli.planning import task_values
from hemostat.cli.recipe import base_of_task
from hemostat.cli.tune_setup import Asked
from hemostat.config import read_toml
from hemostat.errors import FieldError
from hemostat.tune import Space, parameter, settings


def space_of(asked: Asked, file: Path | None) -> Space:
    """The parameters of a study.

    Raises:
        FieldError: a script without a file; a file that says nothing sensible.
    """
    if file is not None:
        return space_from(read_toml(file))
    if not asked.task:
        raise FieldError(
            "space", "", "is needed for a script", "Write --space space.toml, with a line for each {name}."
        )
    base = base_of_task(asked.task, task_values(asked.values))
    rate = parameter.Real("lr", base.lr / 10, base.lr * 10)
    decay = base.weight_decay or 0.01
    start = {"lr": base.lr, "weight_decay": decay}
    return Space((rate, parameter.Real("weight_decay", decay / 30, decay * 30)), start=start)


def space_from(values: Mapping[str, Any]) -> Space:
    """A space from its plain form: a list of values, or low and high, for each name.

    Examples:
        >>> space_from({"lr": {"low": 1e-4, "high": 0.1}, "optimizer": ["sgd", "adamw"]}).names
        ('lr', 'optimizer')
    """
    rest = dict(values)
    constraints, start = tuple(rest.pop("constraints", ())), rest.pop("start", None)
    return Space(tuple(_parameter(name, form) for name, form in rest.items()), constraints, start)


def _parameter(name: str, form: Any) -> parameter.Parameter:
    if isinstance(form, list):
        return parameter.Choice(name, tuple(form))
    if isinstance(form, Mapping) and "values" in form:
        return parameter.Choice(name, tuple(form["values"]), when=form.get("when"))
    if not isinstance(form, Mapping) or not {"low", "high"} <= form.keys() <= {"low", "high", "log", "when"}:
        fix = "Write it like lr = {low = 1e-4, high = 1e-1}, or layers = [2, 4, 8]."
        raise FieldError(name, form, "is no list of values and no range", fix)
    whole = isinstance(form["low"], int) and isinstance(form["high"], int)
    kind = parameter.Integer if whole else parameter.Real
    return kind(name, form["low"], form["high"], log=form.get("log"), when=form.get("when"))


def space_values(space: Space) -> dict[str, Any]:
    """What `space_from` reads."""
    forms: dict[str, Any] = {}
    for each in space.parameters:
        kept = {name: getattr(each, name) for name in each.__struct_fields__ if name != "name"}
        forms[each.name] = {name: value for name, value in kept.items() if value is not None}
    more = {"constraints": list(space.constraints)} if space.constraints else {}
    return {**forms, **more, **({"start": space.start} if space.start else {})}


def first_round(space: Space) -> tuple[settings.Given, ...]:
    """The configuration that is known to work first, its neighbours as the rest of the first round."""
    if space.start is None:
        return ()
    start = space.complete(space.start)
    near = [settings.Given(origin="neighbour", config=config) for config in space.neighbours(start, 0.2)]
    return (settings.Given(origin="recipe", config=start), *near)
