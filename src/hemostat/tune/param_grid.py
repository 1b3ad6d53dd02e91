"""A `param_grid` in scikit-learn's form as a space, and what the whole grid would have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.tune.space import Choice, Space

GRID_NAME: Final = "grid"


class GridCost(Config, frozen=True, kw_only=True):
    """What every configuration of a grid takes.

    Attributes:
        num_configs: how many there are.
        run_s: seconds of all runs one after the other.
        clock_s: seconds with the workers side by side.
        usd: dollars of all runs.
    """

    num_configs: int
    run_s: float
    clock_s: float
    usd: float


def from_param_grid(grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]) -> Space:
    """Turn a grid into a space of the same configurations.

    Of several grids, which of them a configuration is from becomes the parameter "grid", and each name exists where
    its grid is chosen; a name whose values differ from grid to grid gets "name@number".

    Args:
        grid: name to values, or several of them.

    Raises:
        FieldError: it is neither, a name has no list of values, or several grids use the name "grid".

    Examples:
        >>> from_param_grid({"lr": [0.01, 0.1], "batch": [32, 64]}).num_configs
        4
        >>> from_param_grid([{"kernel": ["linear"], "C": [1, 10]}, {"kernel": ["rbf"], "C": [1, 10]}]).num_configs
        4
    """
    grids = [grid] if isinstance(grid, Mapping) else list(grid) if isinstance(grid, Sequence) else []
    if not grids or not all(isinstance(each, Mapping) and each for each in grids):
        fix = "Write {'lr': [0.01, 0.1], 'batch': [32, 64]}, or a list of such."
        raise FieldError("param_grid", grid, "is no dict of lists", fix)
    for each in grids:
        for name, values in each.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise FieldError(f"param_grid.{name}", values, "is no list of values", f"Write [{values!r}].")
    if len(grids) == 1:
        return Space(tuple(Choice(name, tuple(values)) for name, values in grids[0].items()))
    return _joined(grids)


def run_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the script is to be given for a configuration of several grids: their own names, without "grid".

    Examples:
        >>> run_config({"grid": 1, "kernel@1": "rbf", "C": 10})
        {'kernel': 'rbf', 'C': 10}
    """
    return {name.partition("@")[0]: value for name, value in config.items() if name != GRID_NAME}


def grid_cost(space: Space, run_s: float, num_workers: int = 1, usd_per_hour: float = 0.0) -> GridCost:
    """What the whole grid would have cost.

    Args:
        space: a finite one.
        run_s: seconds of one run.
        num_workers: runs side by side.
        usd_per_hour: price of the devices of one run.

    Raises:
        FieldError: the space is infinite; a number makes no sense.

    Examples:
        >>> cost = grid_cost(from_param_grid({"lr": [0.01, 0.1, 1.0], "batch": [32, 64]}), 3600.0, 4, usd_per_hour=2.0)
        >>> cost.num_configs, cost.clock_s / 3600, cost.usd
        (6, 2.0, 12.0)
    """
    for field, value in (("run_s", run_s), ("num_workers", num_workers)):
        if not value > 0:
            raise FieldError(
                field, value, "must be above 0", "Give what one run takes, and how many run at a time."
            )
    if usd_per_hour < 0:
        raise FieldError(
            "usd_per_hour", usd_per_hour, "must not be negative", "Give 0 where nothing is paid."
        )
    if space.num_configs is None:
        raise FieldError("space", list(space.names), "has no full grid", "Give values for every parameter.")
    rounds = -(-space.num_configs // num_workers)
    whole_s = space.num_configs * run_s
    return GridCost(
        num_configs=space.num_configs,
        run_s=whole_s,
        clock_s=rounds * run_s,
        usd=whole_s / 3600 * usd_per_hour,
    )


def _joined(grids: Sequence[Mapping[str, Sequence[Any]]]) -> Space:
    users: dict[str, list[int]] = {}
    for number, each in enumerate(grids):
        for name in each:
            users.setdefault(name, []).append(number)
    if GRID_NAME in users:
        raise FieldError("param_grid", GRID_NAME, "is the name of the choice among the grids", "Rename it.")
    parameters = [Choice(GRID_NAME, tuple(range(len(grids))))]
    for name, numbers in users.items():
        lists = [tuple(grids[number][name]) for number in numbers]
        if all(values == lists[0] for values in lists):
            everywhere = len(numbers) == len(grids)
            when = None if everywhere else f"{GRID_NAME} in {[*numbers]}"
            parameters.append(Choice(name, lists[0], when))
        else:
            parameters += [
                Choice(f"{name}@{number}", values, f"{GRID_NAME} == {number}")
                for number, values in zip(numbers, lists, strict=True)
            ]
    return Space(tuple(parameters))
