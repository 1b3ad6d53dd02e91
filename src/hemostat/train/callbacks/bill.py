"""`Bill`: what a run of another trainer has spent, and why it must stop before a cap is passed."""

from __future__ import annotations

import time
from collections import deque
from typing import Literal

import torch

from hemostat.errors import BudgetStop
from hemostat.recipe import caps
from hemostat.track import attempts
from hemostat.train.caps import BYTES_PER_WEIGHT, STEPS
from hemostat.train.control import Stop
from hemostat.train.settings import TrainSettings


class Bill:
    """What a followed run has spent, and the asker that stops it before a cap is passed.

    Args:
        settings: with the caps.
        usd_per_hour: price of all devices together.
        model: for a guess of how long the first checkpoint takes.

    Attributes:
        best_s: what had been spent at the best point; None before one.
    """

    def __init__(self, settings: TrainSettings, usd_per_hour: float | None, model: torch.nn.Module) -> None:
        self.caps = caps.Caps.read(settings.max_hours, settings.max_usd, usd_per_hour)
        self.best_s: float | None = None
        size = sum(param.numel() * param.element_size() for param in model.parameters())
        self._longest = {"evaluation": 0.0, "checkpoints": caps.first_save_s(BYTES_PER_WEIGHT * size)}
        self._booked = {"evaluation": 0.0, "checkpoints": 0.0}
        self._start_s = attempts.since_launch()
        self._steps: deque[float] = deque(maxlen=STEPS)
        self._made_s = self._looked_s = self._mark_s = time.perf_counter()
        self._booked_since_look = 0.0

    def mark(self) -> None:
        """What is booked next begins here."""
        self._mark_s = time.perf_counter()

    def book(self, part: Literal["evaluation", "checkpoints"]) -> None:
        """Book the time since the latest step, mark or booking."""
        begun_s, self._mark_s = self._mark_s, time.perf_counter()
        took_s = self._mark_s - begun_s
        self._longest[part] = took_s if not self._booked[part] else max(self._longest[part], took_s)
        self._booked[part] += took_s
        self._booked_since_look += took_s

    def ask(self, samples: int) -> Stop | None:
        """Stop where a step, an evaluation and two checkpoints may not fit any more; when they come, is not known."""
        now_s = time.perf_counter()
        self._steps.append(now_s - self._looked_s - self._booked_since_look)
        self._looked_s = self._mark_s = now_s
        self._booked_since_look = 0.0
        evaluation_s, checkpoint_s = self._longest["evaluation"], self._longest["checkpoints"]
        pace = caps.Pace(step_s=max(self._steps), evaluation_s=evaluation_s, checkpoint_s=checkpoint_s)
        needed_s = pace.needed_s(evaluates=evaluation_s > 0, saves=False)
        why = self.caps.why_stop(self.total_s(), needed_s, samples)
        return Stop(why, BudgetStop.exit_status) if why else None

    def total_s(self) -> float:
        """Seconds spent, start-up included."""
        return self._start_s + time.perf_counter() - self._made_s

    def parts(self) -> dict[str, float]:
        """The same by what they went into."""
        rest_s = self.total_s() - self._start_s - sum(self._booked.values())
        return {"training": max(0.0, rest_s), **self._booked, "start": self._start_s}
