"""Scaling law: learning rate and batch of a large run from those that were best in smaller ones, with its doubt."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.tune.space import Choice, Parameter, Space
from hemostat.tune.trial import Configuration

NEAR_BEST: Final = (
    0.0015  # runs whose loss lies within 0.15 % of the best of their setting say where the best is
)
LEAST_SD: Final = 0.35  # of a logarithm: half a step of a grid that doubles; a finer answer is not known
UNKNOWN_SD: Final = math.log(
    2
)  # where the law goes through every point, so that nothing tells how far it is off
_COLUMNS: Final = ("num_params", "num_tokens", "lr", "batch", "loss")


class SmallRun(Config, frozen=True, kw_only=True):
    """One run that is there already.

    Attributes:
        num_params: size of the model (N).
        num_tokens: data that it saw (D), in tokens or samples, but in the same for all.
        lr: peak learning rate.
        batch: global batch, in the unit that the space uses.
        loss: at its end; lower is better.
    """

    num_params: float
    num_tokens: float
    lr: float
    batch: float
    loss: float


class Start(Config, frozen=True, kw_only=True):
    """Where to start at the large size.

    Attributes:
        lr, batch: the law's values.
        lr_factor, batch_factor: one standard deviation of them, as a factor above 1.
        num_settings: sizes that the law was fitted to.
        why: one sentence.
        names: of the learning rate and of the batch in the space.
    """

    lr: float
    batch: float
    lr_factor: float
    batch_factor: float
    num_settings: int
    why: str
    names: tuple[str, str] = ("lr", "batch")

    def configs(self, space: Space, num: int) -> list[Configuration]:
        """The first trial and its neighbours: one standard deviation up or down in one of the two, then in both.

        Args:
            space: has both parameters; values are moved to the nearest that it allows.
            num: of configurations; fewer come back where the space has no more of them near.

        Raises:
            FieldError: the space has no such parameter.
        """
        for name in self.names:
            if name not in space.names:
                raise FieldError(
                    "space", list(space.names), f"has no {name!r}", "Name both, as they stand in it."
                )
        signs = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1), (1, -1), (-1, 1), (2, 0), (0, 2))
        found: dict[str, Configuration] = {}
        for up, more in signs:
            wanted = self.lr * self.lr_factor**up, self.batch * self.batch_factor**more
            config = _nearest(space, dict(zip(self.names, wanted, strict=True)))
            if space.allows(config):
                found.setdefault(space.key(config), config)
        return list(found.values())[:num]


def read_runs(path: Path) -> list[SmallRun]:
    """Read smaller runs from a CSV with the columns num_params, num_tokens, lr, batch, loss; others are ignored.

    Raises:
        FieldError: no such file, a column is missing, or a cell is no number.
    """
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return rows_to_runs(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FieldError("from_runs", str(path), f"cannot be read ({error})", "Check the path.") from None


def rows_to_runs(rows: Iterable[Mapping[str, Any]]) -> list[SmallRun]:
    """Turn plain rows into runs; a run that diverged (no finite loss) is left out.

    Raises:
        FieldError: a column is missing, or a cell is no number above 0.
    """
    runs = []
    for number, row in enumerate(rows, start=1):
        cells = {}
        for name in _COLUMNS:
            try:
                cells[name] = float(row[name])
            except (KeyError, TypeError, ValueError):
                fix = f"Give the columns {', '.join(_COLUMNS)}."
                raise FieldError(f"row {number}.{name}", row.get(name), "must be a number", fix) from None
            if name != "loss" and not 0 < cells[name] < math.inf:
                raise FieldError(
                    f"row {number}.{name}", cells[name], "must be above 0", "Mend or drop that run."
                )
        if math.isfinite(cells["loss"]):
            runs.append(SmallRun(**cells))
    return runs


def start_from(
    runs: Sequence[SmallRun],
    num_params: float,
    num_tokens: float,
    names: tuple[str, str] = ("lr", "batch"),
) -> Start:
    """Fit log(lr) and log(batch) of the best runs of each size linearly to log(N) and log(D), and go on to a size.

    Args:
        runs: smaller runs, several learning rates and batches for each size.
        num_params: size of the model to start (N).
        num_tokens: its data (D).
        names: of the learning rate and of the batch in the space that is to be searched.

    Raises:
        FieldError: fewer than three sizes with at least four runs each.

    Source: the form is Step Law, Li et al. 2025 (arXiv 2503.04715) section 3; the exponents are fitted to the runs
        that are given. Measured: tests/tune/test_scaling_law.py.
    """
    import numpy

    best = _best_points(runs)
    if len(best) < 3:
        fix = "Run a small grid at three sizes, or start without a law."
        raise FieldError("from_runs", len(best), "sizes with four runs or more are too few for a law", fix)
    sizes = numpy.log(list(best))
    centre = sizes.mean(axis=0)
    design = numpy.column_stack([numpy.ones(len(best)), sizes - centre])
    target = numpy.concatenate([[1.0], numpy.log([num_params, num_tokens]) - centre])
    # the smallest solution: where all runs have one size of model, only the data decide
    inverse = numpy.linalg.pinv(design, rcond=1e-6)
    wanted = numpy.array(list(best.values()))
    law = inverse @ wanted
    spare = len(best) - int(numpy.linalg.matrix_rank(design, tol=1e-6))
    left = wanted - design @ law
    leverage = float(((target @ inverse) ** 2).sum())
    sds = []
    for column in range(2):
        scatter = math.sqrt(float((left[:, column] ** 2).sum()) / spare) if spare else UNKNOWN_SD
        sds.append(max(LEAST_SD, scatter * math.sqrt(1 + leverage)))
    lr, batch = (float(each) for each in numpy.exp(target @ law))
    return Start(
        lr=lr,
        batch=batch,
        lr_factor=math.exp(sds[0]),
        batch_factor=math.exp(sds[1]),
        num_settings=len(best),
        names=names,
        why=f"A power law through the best runs of {len(best)} smaller sizes"
        + (
            ", known to those factors only."
            if spare
            else "; it goes through all of them, so its doubt is a guess."
        ),
    )


def _best_points(runs: Sequence[SmallRun]) -> dict[tuple[float, float], tuple[float, float]]:
    """By size, logarithms of the learning rate and of the batch: means over the runs that are as good as the best."""
    by_size: dict[tuple[float, float], list[SmallRun]] = {}
    for run in runs:
        by_size.setdefault((run.num_params, run.num_tokens), []).append(run)
    best = {}
    for size, group in sorted(by_size.items()):
        if len(group) < 4:
            continue
        least = min(run.loss for run in group)
        near = [run for run in group if run.loss <= least + abs(least) * NEAR_BEST]
        lr, batch = (
            sum(math.log(value) for value in values) / len(near)
            for values in ([run.lr for run in near], [run.batch for run in near])
        )
        best[size] = (lr, batch)
    return best


def _nearest(space: Space, wanted: Mapping[str, float]) -> Configuration:
    by_name = {parameter.name: parameter for parameter in space.parameters}
    return space.complete({name: _near(by_name[name], value) for name, value in wanted.items()})


def _near(parameter: Parameter, wanted: float) -> Any:
    if isinstance(parameter, Choice):
        if not parameter.ordered or min(parameter.values) <= 0:
            fix = "List numbers above 0."
            raise FieldError(parameter.name, list(parameter.values), "cannot be started from a law", fix)
        return min(parameter.values, key=lambda value: abs(math.log(value / wanted)))
    return parameter.decode(parameter.encode(min(max(wanted, parameter.low), parameter.high)))
