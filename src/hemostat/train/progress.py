"""What a person sees while a run goes on: a rich bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from hemostat.units import format_number, format_seconds, format_usd

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from hemostat.train.update import Step

TERMINAL_EVERY_S = 0.25
LINE_EVERY_S = 10.0


class Progress:
    """Shows the run on rank 0 and nothing elsewhere.

    The screen is drawn from the training thread at most four times a second: a drawing thread of its own would
    take the interpreter lock from small steps.

    Args:
        total_samples: length of the run.
        usd_per_hour: price of all devices, None where it is not known.
        visible: False shows nothing.
        start_samples: where this attempt begins; those before it say nothing of its speed.
    """

    def __init__(
        self, total_samples: int, usd_per_hour: float | None, visible: bool, start_samples: int = 0
    ) -> None:
        self._start_samples = start_samples
        self._total_samples = total_samples
        self._usd_per_hour = usd_per_hour
        self._visible = visible
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._every_s = LINE_EVERY_S
        self._started_s = time.perf_counter()
        self._next_s = self._started_s + LINE_EVERY_S
        self.best = ""
        if visible and sys.stderr.isatty():
            self._open_bar()

    def _open_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.percentage:>3.0f}%"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._task = self._bar.add_task("starting", total=self._total_samples)
        self._bar.start()
        self._every_s = TERMINAL_EVERY_S
        self._next_s = self._started_s

    def is_due(self) -> bool:
        """It is time to show a step."""
        return self._visible and time.perf_counter() >= self._next_s

    def update(self, step: Step) -> None:
        """Show the latest step, if it is time to."""
        if not self._visible:
            return
        now_s = time.perf_counter()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._every_s
        text = self._line(step, now_s - self._started_s)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=step.samples, description=text, refresh=True)
        else:
            share = step.samples / self._total_samples
            print(f"{share:4.0%}  {text}", file=sys.stderr, flush=True)

    def _line(self, step: Step, elapsed_s: float) -> str:
        rate = (step.samples - self._start_samples) / elapsed_s if elapsed_s > 0 else 0.0
        left_s = (self._total_samples - step.samples) / rate if rate else 0.0
        parts = [
            f"step {step.number}",
            f"loss {step.loss:.4f}",
            f"lr {format_number(step.lr)}",
            f"{rate:,.0f} samples/s",
            f"{format_seconds(left_s)} left",
        ]
        if self._usd_per_hour is not None:
            parts.append(format_usd(self._usd_per_hour * elapsed_s / 3600))
        if self.best:
            parts.append(self.best)
        return "  ".join(parts)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._visible:
            return
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the bar off the screen."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
