"""What a person sees while a study runs: a table on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from hemostat.tune import History
from hemostat.units import format_number, format_seconds, format_usd

if TYPE_CHECKING:
    from rich.live import Live

    from hemostat.tune import Study

DRAW_EVERY_S = 0.25
_SHOWN = 5


def config_text(config: dict[str, Any]) -> str:
    """A configuration on one line.

    Examples:
        >>> config_text({"lr": 0.00123456, "optimizer": "sgd"})
        'lr=0.00123  optimizer=sgd'
    """
    cells = [
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in config.items()
    ]
    return "  ".join(cells)


def leader(history: History) -> tuple[int, float, int] | None:
    """(trial, value, position) of the best at the furthest rung that any trial has reached with a number."""
    for at in reversed(history.rungs):
        for score, trial in history.at_rung(at):
            if score < math.inf:
                return trial.number, history.sign * score, at
    return None


def status_line(study: Study, metric: str) -> str:
    """Trials, best, money and time, on one line."""
    history = study.history
    counts = Counter("running" if trial.outcome is None else trial.outcome for trial in history.trials)
    parts = [
        f"{len(history.trials)} trials: "
        + ", ".join(f"{count} {name}" for name, count in counts.most_common())
    ]
    best = leader(history)
    if best is not None:
        parts.append(f"best {metric} {format_number(best[1])} (trial {best[0]} at {best[2]:,})")
    budget = study.settings.budget
    spent_s = study.busy_s + sum(max(0.0, study.clock_s - order.issued_s) for order in study.running)
    usd = f"{format_usd(spent_s * budget.usd_per_s)}, " if budget.usd_per_s else ""
    parts.append(f"spent {usd}{format_seconds(study.clock_s)}")
    left_s = _left_s(study, spent_s)
    if left_s is not None:
        parts.append(f"at most {format_seconds(left_s)} to go")
    return "   ".join(parts)


def _left_s(study: Study, spent_s: float) -> float | None:
    budget = study.settings.budget
    ends = [] if budget.max_s is None else [budget.max_s - study.clock_s]
    if math.isfinite(budget.max_busy_s):
        ends.append((budget.max_busy_s - spent_s) / max(1, len(study.running)))
    return max(0.0, min(ends)) if ends else None


def rung_rows(history: History) -> list[tuple[str, str, str, str]]:
    """For each rung its position, how many trials have been there, how many wait there, and its best value."""
    rows = []
    for at in history.rungs:
        board = history.at_rung(at)
        waiting = sum(trial.outcome == "paused" and trial.position == at for _, trial in board)
        finite = [score for score, _ in board if score < math.inf]
        best = format_number(history.sign * finite[0]) if finite else ""
        rows.append((f"{at:,}", str(len(board)), str(waiting), best))
    return rows


class LiveStudy:
    """Follows a study; call it after everything that happens.

    Args:
        metric: name of the objective.
        stream: where to write; a table is drawn where it is a terminal.
    """

    def __init__(self, metric: str, stream: TextIO | None = None) -> None:
        self._metric = metric
        self._stream = stream or sys.stderr
        self._live: Live | None = None
        self._next_s = 0.0
        self._known: dict[int, str | None] = {}
        self._best: tuple[int, float, int] | None = None

    def __enter__(self) -> LiveStudy:
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self._stream), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, study: Study) -> None:
        """Show what is new."""
        if self._live is not None:
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + DRAW_EVERY_S
                self._live.update(self._table(study), refresh=True)
            return
        for line in self.news(study):
            print(line, file=self._stream, flush=True)

    def news(self, study: Study) -> list[str]:
        """Lines about what has changed since the last call: ends of stretches, and a new best."""
        lines = []
        for trial in study.history.trials:
            before = self._known.get(trial.number)
            self._known[trial.number] = trial.outcome
            if trial.outcome is None or trial.outcome == before:
                continue
            value = f"{self._metric} {format_number(trial.points[-1].value)}" if trial.points else "no value"
            why = f": {trial.why}" if trial.why else ""
            lines.append(f"trial {trial.number} {trial.outcome} at {trial.position:,}, {value}{why}")
        best = leader(study.history)
        if best is not None and best != self._best:
            self._best = best
            config = study.history.trials[best[0]].config
            lines.append(f"{status_line(study, self._metric)}   {config_text(config)}")
        return lines

    def _table(self, study: Study) -> Any:
        from rich.console import Group
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("rung", "trials", "waiting", f"best {self._metric}"):
            table.add_column(name, justify="right")
        for row in rung_rows(study.history):
            table.add_row(*row)
        best = leader(study.history)
        config = f"best: {config_text(study.history.trials[best[0]].config)}" if best else "no value yet"
        running = [f"trial {order.trial} to {order.until:,}" for order in study.running[:_SHOWN]]
        more = len(study.running) - len(running)
        now = "running: " + ", ".join(running) + (f" and {more} more" if more > 0 else "")
        return Group(status_line(study, self._metric), config, now, table)
