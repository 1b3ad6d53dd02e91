"""Pictures of a study: how the best value fell, which parameters the good trials share, and what decided."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hemostat.report.picture import picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hemostat.tune import History, Importance, Space


def draw_history(history: History, metric: str, path: Path) -> Path | None:
    """Draw the last value of each trial and the best so far at the end of a run, over the device time spent.

    Args:
        history: of a study.
        metric: name of the objective.
        path: of the PNG.

    Returns:
        The file; None where no trial has a value.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RecordError: the disk refused the picture.
    """
    end = history.rungs[-1]
    spent_s, rows = 0.0, []
    for trial in history.trials:
        spent_s += trial.time_s
        if trial.points and math.isfinite(trial.points[-1].value):
            rows.append((spent_s, trial.points[-1].value, trial.points[-1].at == end))
    if not rows:
        return None
    best: list[tuple[float, float]] = []
    for at_s, value, whole in rows:
        if whole and (not best or history.sign * value < history.sign * best[-1][1]):
            best.append((at_s, value))
    with picture(path, "the pictures of a study", (8, 4.5)) as figure:
        axes = figure.add_subplot()
        for whole, marker, label in ((False, "x", "stopped on the way"), (True, "o", "ran to the end")):
            shown = [row for row in rows if row[2] is whole]
            if shown:
                hours = [row[0] / 3600 for row in shown]
                axes.plot(hours, [row[1] for row in shown], marker, markersize=5, label=label)
        if best:
            hours = [at_s / 3600 for at_s, _ in best] + [rows[-1][0] / 3600]
            axes.step(hours, [value for _, value in best] + [best[-1][1]], where="post", label="best so far")
        axes.set_xlabel("hours of all trials, by their numbers")
        axes.set_ylabel(metric)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    return path


def draw_parallel(space: Space, history: History, path: Path) -> Path | None:
    """Draw a line through the parameters of each trial, the better the darker.

    Args:
        space: of the study; each parameter is an axis on its own scale.
        history: its trials.
        path: of the PNG.

    Returns:
        The file; None where no trial was judged.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RecordError: the disk refused the picture.
    """
    from hemostat.tune import ranked

    order = ranked(history)
    if not order:
        return None
    names = space.names
    with picture(path, "the pictures of a study", (max(6.0, 1.4 * len(names)), 4.5)) as figure:
        axes = figure.add_subplot()
        for place, trial in reversed(list(enumerate(order))):
            darkness = 1.0 - place / len(order)
            colour = (0.75 * (1 - darkness), 0.75 * (1 - darkness), 0.85)
            axes.plot(
                range(len(names)), space.encode(trial.config), color=colour, linewidth=0.5 + 2 * darkness**3
            )
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks([])
        for column, parameter in enumerate(space.parameters):
            axes.axvline(column, color="grey", linewidth=0.5)
            for unit, text in _labels(parameter):
                axes.annotate(text, (column, unit), xytext=(3, 2), textcoords="offset points", fontsize=7)
        axes.set_title("parameters of the trials, the better the darker", fontsize=9)
    return path


def draw_importance(table: Sequence[Importance], path: Path) -> Path:
    """Draw the share of each parameter; those that cannot be told from chance are grey.

    Args:
        table: as of `hemostat.tune.importance`.
        path: of the PNG.

    Raises:
        MissingExtraError: matplotlib is not installed.
        RecordError: the disk refused the picture.
    """
    rows = list(reversed(table))
    with picture(path, "the pictures of a study", (6, 0.6 + 0.4 * len(rows))) as figure:
        axes = figure.add_subplot()
        colours = ["tab:blue" if each.p_value < 0.05 else "lightgrey" for each in rows]
        axes.barh([each.name for each in rows], [each.share for each in rows], color=colours)
        axes.set_xlabel("importance; grey: not told from chance")
    return path


def _labels(parameter: Any) -> list[tuple[float, str]]:
    """What to write at which height: both ends of a range, or every value that has no order."""
    if not parameter.ordered:
        return [(parameter.encode(value), str(value)) for value in parameter.values]
    values = [(unit, parameter.decode(unit)) for unit in (0.0, 1.0)]
    return [(unit, f"{value:g}" if isinstance(value, float) else str(value)) for unit, value in values]
