"""Early stopping: patience as a window in samples, and the state machine that decides at each evaluation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hemostat.errors import FieldError
from hemostat.recipe.field_checks import check_int, check_number

MIN_PATIENCE = 3


class Verdict(NamedTuple):
    """What one evaluation decided.

    Attributes:
        improved: the metric is a new best by more than min_delta.
        stop: the run ends here.
        lr_factor: what the schedule's rate is multiplied by from now on; cumulative, 0.25 after two.
        why: one sentence; empty where nothing was decided.
        best: best value so far; NaN before the first finite one.
        best_step: step of the best value; -1 before the first.
    """

    improved: bool
    stop: bool
    lr_factor: float
    why: str
    best: float
    best_step: int


class Stopper:
    """Early stopping and plateau halving, fed once per evaluation with the pooled metric.

    A bad evaluation is one without a new best; NaN is bad. The run stops at the bad evaluation number
    `patience_evals` in a row, never before `not_before_step` (end of warm-up, end of an annealed decay):
    evaluations before it are not counted, but they may set the best. The rate is multiplied by
    `plateau_factor` at bad evaluation number `plateau_patience + 1`, as torch's ReduceLROnPlateau does.

    Args:
        patience_evals: bad evaluations before a stop; None: never stop.
        plateau_patience: bad evaluations that are borne before the rate is lowered; None: never lower it.
        plateau_factor: factor of the rate on a plateau.
        min_delta: smallest change that counts as an improvement.
        mode: "min" or "max".
        not_before_step: no stop and no halving before this step.

    Raises:
        FieldError: a count below its least value, a factor outside (0, 1), an unknown mode.

    Examples:
        >>> stopper = Stopper(patience_evals=4, plateau_patience=1)
        >>> [stopper.update(loss, step).lr_factor for step, loss in enumerate([1.0, 0.9, 0.95, 0.94])]
        [1.0, 1.0, 1.0, 0.5]
        >>> stopper.update(0.93, 4).stop, stopper.update(0.92, 5).why
        (False, 'no improvement in 4 evaluations: best 0.9 at step 1')
    """

    def __init__(
        self,
        patience_evals: int | None = None,
        plateau_patience: int | None = None,
        plateau_factor: float = 0.5,
        min_delta: float = 0.0,
        mode: str = "min",
        not_before_step: int = 0,
    ) -> None:
        check_int("patience_evals", patience_evals, minimum=1)
        check_int("plateau_patience", plateau_patience, minimum=0)
        check_int("not_before_step", not_before_step, minimum=0)
        check_number("plateau_factor", plateau_factor, above=0.0, below=1.0)
        check_number("min_delta", min_delta)
        if mode not in ("min", "max"):
            raise FieldError("mode", mode, "must be min or max", "Use min for a loss, max for an accuracy.")
        self.patience_evals = patience_evals
        self.plateau_patience = plateau_patience
        self.plateau_factor = plateau_factor
        self.min_delta = min_delta
        self.mode = mode
        self.not_before_step = not_before_step
        self.best = math.nan
        self.best_step = -1
        self.bad_evals = 0
        self.plateau_evals = 0
        self.lr_factor = 1.0

    def update(self, value: float, step: int) -> Verdict:
        """Take one evaluation.

        Args:
            value: the metric, pooled over all ranks.
            step: applied updates so far.

        Returns:
            The verdict; the same on all ranks for the same inputs.
        """
        gain = self.best - value if self.mode == "min" else value - self.best
        improved = math.isfinite(value) and (math.isnan(self.best) or gain > self.min_delta)
        if improved:
            self.best, self.best_step = float(value), step
            self.bad_evals = self.plateau_evals = 0
            return self._verdict(improved=True)
        if step < self.not_before_step:
            return self._verdict()
        self.bad_evals += 1
        self.plateau_evals += 1
        if self.patience_evals is not None and self.bad_evals >= self.patience_evals:
            best = (
                "no finite value yet"
                if self.best_step < 0
                else f"best {self.best:.4g} at step {self.best_step}"
            )
            return self._verdict(stop=True, why=f"no improvement in {self.bad_evals} evaluations: {best}")
        if self.plateau_patience is not None and self.plateau_evals > self.plateau_patience:
            bad = self.plateau_evals
            self.plateau_evals = 0
            self.lr_factor *= self.plateau_factor
            return self._verdict(why=f"plateau of {bad} evaluations: the rate is now x{self.lr_factor:.4g}")
        return self._verdict()

    def _verdict(self, improved: bool = False, stop: bool = False, why: str = "") -> Verdict:
        return Verdict(improved, stop, self.lr_factor, why, self.best, self.best_step)

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on: plain numbers; `best` is None before the first finite value."""
        return {
            "best": None if math.isnan(self.best) else self.best,
            "best_step": self.best_step,
            "bad_evals": self.bad_evals,
            "plateau_evals": self.plateau_evals,
            "lr_factor": self.lr_factor,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`; the settings are those of this object."""
        best = state["best"]
        self.best = math.nan if best is None else float(best)
        self.best_step = int(state["best_step"])
        self.bad_evals = int(state["bad_evals"])
        self.plateau_evals = int(state["plateau_evals"])
        self.lr_factor = float(state["lr_factor"])


def convert_patience(
    patience: int,
    *,
    samples_before: float,
    samples_after: float,
    stretch: float = 1.0,
    minimum: int = MIN_PATIENCE,
) -> int:
    """Evaluations of patience at a new rhythm.

    The window in samples is kept, times the stretch of the run beyond the critical batch:
    max(minimum, ceil(patience * samples_before * stretch / samples_after)).

    Args:
        patience: evaluations on one device.
        samples_before: samples between evaluations on one device.
        samples_after: samples between evaluations now.
        stretch: samples needed now over samples needed before.
        minimum: a patience below 3 stops on noise.

    Source: exact change of units; stretch from McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11.

    Examples:
        >>> convert_patience(10, samples_before=128_000, samples_after=1_024_000)  # every 1000 steps kept
        3
        >>> convert_patience(5, samples_before=50_000, samples_after=50_000, stretch=1.8716)
        10
    """
    # The tiny subtraction keeps ceil from turning 10.000000000000002 into 11.
    return max(minimum, math.ceil(patience * samples_before * stretch / samples_after - 1e-9))


def shorter_patience(patience: int) -> int:
    """The rule of thumb where the rhythm is not known: 0.6 of the one-device patience, at least 3.

    Source: practice: a third to a half shorter on many devices; 0.6 lies between. Never longer than before.

    Examples:
        >>> [shorter_patience(p) for p in (2, 5, 10, 20)]
        [2, 3, 6, 12]
    """
    return min(patience, max(MIN_PATIENCE, round(0.6 * patience)))


def accuracy_noise(accuracy: float, num_val_samples: int) -> float:
    """Standard error of an accuracy (0 to 1) over a validation set.

    Source: binomial: sqrt(p (1 - p) / n).

    Examples:
        >>> round(accuracy_noise(0.9, 10_000), 4)
        0.003
    """
    return math.sqrt(accuracy * (1.0 - accuracy) / num_val_samples)
