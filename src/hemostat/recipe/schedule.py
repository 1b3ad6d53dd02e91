"""Schedule: the learning rate as one closed form of the applied step, warm-up and decay together."""

from __future__ import annotations

import math

from hemostat.config import Config
from hemostat.errors import FieldError, UnknownNameError
from hemostat.recipe.field_checks import check_int, check_number
from hemostat.recipe.one_device import SCHEDULES

_PI = math.pi
_cos = math.cos


class Schedule(Config, frozen=True, kw_only=True):
    """Learning rate of every step. Steps are applied updates, counted from 0; a skipped step is not one.

    Attributes:
        kind: cosine, linear, wsd, constant or step.
        peak_lr: the rate at step `warmup_steps`.
        start_lr: where the linear warm-up comes from (the rate "before step 0").
        warmup_steps: steps below the peak.
        total_steps: length of the run; 0 where it is not known, and the rate then stays at the peak.
        eta_min: floor; annealed kinds reach it exactly at the last step.
        decay_steps: length of the final decay, for wsd.
        milestones_steps: steps at which a step schedule multiplies by gamma.
        gamma: that factor.

    Raises:
        FieldError: a floor above the peak, a warm-up longer than half of the run, milestones out of order.

    Examples:
        >>> run = Schedule(kind="cosine", peak_lr=0.8, start_lr=0.1, warmup_steps=6, total_steps=100)
        >>> [round(run.lr(step), 4) for step in (0, 5, 6, 7, 52, 99, 120)]
        [0.2, 0.7, 0.8, 0.7998, 0.4068, 0.0, 0.0]
    """

    kind: str = "cosine"
    peak_lr: float
    start_lr: float = 0.0
    warmup_steps: int = 0
    total_steps: int = 0
    eta_min: float = 0.0
    decay_steps: int = 0
    milestones_steps: tuple[int, ...] = ()
    gamma: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what has no meaning; half of the run is the hard limit of a warm-up."""
        if self.kind not in SCHEDULES:
            raise UnknownNameError("schedule", str(self.kind), SCHEDULES)
        check_number("peak_lr", self.peak_lr, above=0.0)
        check_number("gamma", self.gamma, above=0.0)
        for name in ("start_lr", "eta_min"):
            check_number(name, getattr(self, name))
        for name in ("warmup_steps", "total_steps", "decay_steps"):
            check_int(name, getattr(self, name), minimum=0)
        if self.eta_min > self.peak_lr:
            raise FieldError(
                "eta_min",
                self.eta_min,
                f"the floor lies above the peak rate {self.peak_lr:g}",
                "Write a floor between 0 and the peak.",
            )
        if self.total_steps and self.warmup_steps * 2 > self.total_steps:
            raise FieldError(
                "warmup_steps",
                self.warmup_steps,
                f"is more than half of the run ({self.total_steps} steps)",
                f"Use at most {self.total_steps // 2}, or train longer.",
            )
        marks = list(self.milestones_steps)
        if marks != sorted(marks):
            raise FieldError("milestones_steps", marks, "must rise", "Sort the steps.")
        if marks and self.kind == "step" and marks[0] <= self.warmup_steps:
            raise FieldError(
                "milestones_steps",
                marks,
                f"the first lies within the warm-up of {self.warmup_steps} steps",
                "Shorten the warm-up, or move the milestone.",
            )

    def lr(self, step: int) -> float:
        """The learning rate of update number `step`, from 0.

        Warm-up: start + (peak - start) * (step + 1) / (warmup + 1), so that step `warmup` has the peak
        and no step has the rate 0. After it, with t from 0 at the end of warm-up to 1 at the last step:
        cosine eta + (peak - eta) * (1 + cos(pi t)) / 2; linear eta + (peak - eta) * (1 - t).

        Source: warm-up Goyal et al. 2017 (arXiv 1706.02677) section 2.2; cosine Loshchilov & Hutter 2016
            (arXiv 1608.03983) eq. 5 without restarts; linear to zero 2502.15938; wsd Hagele et al. 2024
            (arXiv 2405.18392) with a linear cool-down.
        """
        warmup = self.warmup_steps
        peak = self.peak_lr
        if step < warmup:
            start = self.start_lr
            return start + (peak - start) * (step + 1) / (warmup + 1)
        kind = self.kind
        if step == warmup or not self.total_steps or kind == "constant":
            return peak
        floor = self.eta_min
        if kind == "step":
            return max(floor, peak * self.gamma ** sum(step >= mark for mark in self.milestones_steps))
        last = self.total_steps - 1
        if step >= last:
            return floor
        if kind == "cosine":
            return floor + (peak - floor) * 0.5 * (1.0 + _cos(_PI * (step - warmup) / (last - warmup)))
        if kind == "linear":
            return floor + (peak - floor) * (last - step) / (last - warmup)
        decay = min(self.decay_steps, last - warmup)
        return peak if last - step >= decay else floor + (peak - floor) * (last - step) / decay
