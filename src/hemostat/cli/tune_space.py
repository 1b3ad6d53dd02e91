"""The space of a study: from a TOML file, from a grid in scikit-learn's form, or proposed from a task's recipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hemostat.cli.planning import task_values
from hemostat.cli.recipe import base_of_task
from hemostat.cli.tune_setup import Asked, devices_of
from hemostat.config import Resolved
from hemostat.errors import FieldError
from hemostat.recipe import Base, convert
from hemostat.tune import Space, default_space, param_grid, space_file


class Found(NamedTuple):
    """A space and where it comes from.

    Attributes:
        space: what may be chosen.
        reasons: one for each parameter of a space that was proposed.
        is_grids: it is several grids, whose configurations have names of their own.
    """

    space: Space
    reasons: Sequence[Resolved] = ()
    is_grids: bool = False


def space_of(asked: Asked, file: Path | None) -> Found:
    """The parameters of a study.

    Raises:
        FieldError: a script without a file; a file that says nothing sensible.
    """
    if file is not None:
        if file.suffix != ".json":
            return Found(space_file.read_space(file))
        grid = _read_grid(file)
        return Found(param_grid.from_param_grid(grid), is_grids=isinstance(grid, list) and len(grid) > 1)
    if not asked.task:
        raise FieldError(
            "space", "", "is needed for a script", "Write --space space.toml, with a line for each {name}."
        )
    from hemostat.task import load_task  # torch

    values = task_values(asked.values)
    recipe = convert(base_of_task(asked.task, values), devices_of(asked))
    own = load_task(asked.task, values).hyper_parameters
    # what the recipe knows is tuned in its coordinates or, as the length of a run, not at all
    fields = {name: value for name, value in own.items() if name not in Base.__struct_fields__}
    proposed = default_space.propose_space(recipe, fields)
    return Found(proposed.space, proposed.reasons)


def _read_grid(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FieldError(
            "space", str(file), f"cannot be read ({error.strerror})", "Check the path."
        ) from None
    except ValueError as error:
        raise FieldError("space", str(file), f"is no JSON ({error})", "Mend that line.") from None
