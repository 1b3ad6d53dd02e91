"""Rhythm of a run: evaluations, checkpoints, patience and plateau halving at a new global batch."""

from __future__ import annotations

from typing import NamedTuple

from hemostat.config import Resolved
from hemostat.recipe.length import samples_per_period, steps_from_samples
from hemostat.recipe.one_device import ANNEALED, Base
from hemostat.recipe.patience import MIN_PATIENCE, convert_patience, shorter_patience

EVALS_PER_RUN = 20
_SAME = 0.01  # periods that differ by less are one period
_UNITS = "exact change of units"
_WINDOW_SOURCE = "exact change of units; McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11 for the stretch"


class Change(NamedTuple):
    """What moved between one device and now.

    Attributes:
        batch: global batch now.
        eval_samples: samples between evaluations asked for now; None: as before.
        stretch: samples now over samples before, for the same target.
        total_samples: length of the run; 0: not known.
        checkpoint_samples: samples between checkpoints asked for now; None: as before.
    """

    batch: int
    eval_samples: int | None
    stretch: float
    total_samples: int
    checkpoint_samples: int | None = None


class Rhythm(NamedTuple):
    """When a run is evaluated, saved and given up; the rows say why."""

    eval_every_samples: int
    eval_every_steps: int
    checkpoint_every_samples: int | None
    checkpoint_every_steps: int | None
    patience_evals: int | None
    plateau_patience: int | None
    min_delta: float
    rows: tuple[Resolved, ...]


class _Periods(NamedTuple):
    """Samples between evaluations as they really come, after whole updates; `before` is None if not known."""

    before: float | None
    after: float
    same: bool


def derive_rhythm(base: Base, change: Change) -> Rhythm:
    """Periods in steps, patience in evaluations, and a plateau patience that fits before the stop.

    Source: the window in samples is kept (exact); floor of 3 evaluations against noise; a plateau halving
        at half of the window leaves the other half to the halved rate.

    Examples:
        >>> base = Base(tuned_batch=128, patience=10, eval_every_samples=128_000, schedule="constant")
        >>> rhythm = derive_rhythm(base, Change(1024, None, 1.0, 0))
        >>> rhythm.eval_every_steps, rhythm.patience_evals, rhythm.plateau_patience
        (125, 10, 4)
    """
    period, steps, period_row = _eval_period(base, change)
    periods = _real_periods(base, change, steps)
    patience, patience_row = _patience(base, change, periods)
    plateau, plateau_row = _plateau(base, change, periods, patience)
    delta, delta_row = _min_delta(base)
    saved, saved_steps, saved_row = _checkpoint_period(base, change)
    rows = (period_row, saved_row, patience_row, plateau_row, delta_row)
    found = tuple(row for row in rows if row is not None)
    return Rhythm(period, steps, saved, saved_steps, patience, plateau, delta, found)


def _eval_period(base: Base, change: Change) -> tuple[int, int, Resolved | None]:
    before = base.eval_every_samples
    period, source, confidence = change.eval_samples or before, _UNITS, "high"
    why = "the same samples between evaluations" if change.eval_samples is None else "as you asked"
    if period is None:
        if not change.total_samples:
            return 0, 0, None
        period = max(1, change.total_samples // EVALS_PER_RUN)
        period = min(period, base.num_train_samples or period)
        why = f"once an epoch, and at least {EVALS_PER_RUN} times in the run"
        source, confidence = "practice: fewer evaluations cannot show a plateau", "medium"
    steps = steps_from_samples(period, change.batch, base.num_train_samples)
    why = f"{why}: {period} samples"
    real = samples_per_period(steps, change.batch, base.num_train_samples)
    if abs(real - period) > _SAME * period:
        why += f", which whole updates make {round(real)}"
    row = Resolved(
        field="eval_every_steps",
        before=_steps_before(base, before),
        value=steps,
        why=why,
        source=source,
        confidence=confidence,
    )
    return period, steps, row


def _steps_before(base: Base, period: int | None) -> int | None:
    return None if period is None else steps_from_samples(period, base.tuned_batch, base.num_train_samples)


def _real_periods(base: Base, change: Change, steps: int) -> _Periods:
    """What patience counts in: an evaluation cannot come before its update is whole."""
    after = samples_per_period(steps, change.batch, base.num_train_samples)
    steps_before = _steps_before(base, base.eval_every_samples)
    asked = change.eval_samples in (None, base.eval_every_samples)
    same = asked and change.batch == base.tuned_batch
    if steps_before is None:
        return _Periods(None, after, same)
    before = samples_per_period(steps_before, base.tuned_batch, base.num_train_samples)
    # Rounding to whole updates by a hair must not turn a patience of 10 into 11.
    return _Periods(before, before if abs(after - before) <= _SAME * before else after, same)


def _checkpoint_period(base: Base, change: Change) -> tuple[int | None, int | None, Resolved | None]:
    before = base.checkpoint_every_samples
    period = change.checkpoint_samples or before
    if period is None:
        return None, None, None
    steps = steps_from_samples(period, change.batch, base.num_train_samples)
    why = "the same samples between checkpoints" if change.checkpoint_samples is None else "as you asked"
    row = Resolved(
        field="checkpoint_every_steps",
        before=_steps_before(base, before),
        value=steps,
        why=f"{why}: {period} samples",
        source=_UNITS,
        confidence="high",
    )
    return period, steps, row


def _patience(base: Base, change: Change, periods: _Periods) -> tuple[int | None, Resolved | None]:
    had = base.patience
    if had is None:
        return None, None
    source = _WINDOW_SOURCE
    if periods.same:
        value, why, confidence = had, "the same global batch and rhythm", "high"
    elif periods.before is None:
        value, source, confidence = shorter_patience(had), "practice", "low"
        why = "the rhythm on one device is not known: a third to a half shorter (give eval_every_samples)"
    else:
        exact = _same_window(had, periods, change.stretch, 1)
        value = max(MIN_PATIENCE, exact)
        why = f"the same window: {had} x {round(periods.before)} samples / {round(periods.after)}"
        why += "" if change.stretch == 1.0 else f", stretched x{change.stretch:.2f} beyond the critical batch"
        if value > exact:
            why += f" would be {exact}, but fewer than {MIN_PATIENCE} evaluations stop on noise"
        confidence = "high" if base.critical_batch is not None else "medium"
    row = Resolved(
        field="patience_evals", before=had, value=value, why=why, source=source, confidence=confidence
    )
    return value, row


def _same_window(had: int, periods: _Periods, stretch: float, minimum: int) -> int:
    before = periods.after if periods.before is None else periods.before
    return convert_patience(
        had, samples_before=before, samples_after=periods.after, stretch=stretch, minimum=minimum
    )


def _plateau(
    base: Base, change: Change, periods: _Periods, patience: int | None
) -> tuple[int | None, Resolved | None]:
    had = base.plateau_patience
    if had is None and (patience is None or base.schedule in ANNEALED):
        return None, None
    # The rate is halved at bad evaluation p + 1: not the first, and with evaluations left before the stop.
    middle = 0 if patience is None else (patience - 1) // 2
    value: int | None
    if had is None:
        value, why = middle, "halves the rate in the middle of the patience window"
    elif periods.same:
        value, why = had, "the same global batch and rhythm"
    elif periods.before is None:
        value, why = shorter_patience(had), "the rhythm on one device is not known: shorter, as the patience"
    else:
        value, why = _same_window(had, periods, change.stretch, 2), "the same window in samples"
    if patience is not None and (had is None or value + 1 >= patience):
        if middle == 0:
            value = None
            why = f"never: patience {patience} leaves no room between the first bad evaluation and the stop"
        elif had is not None:
            value = middle
            why = f"lowered: patience {patience} would stop the run before the rate is halved"
    row = Resolved(
        field="plateau_patience",
        before=had,
        value=value,
        why=why,
        source="exact change of units; torch ReduceLROnPlateau acts on bad evaluation patience + 1",
        confidence="medium",
    )
    return value, row


def _min_delta(base: Base) -> tuple[float, Resolved | None]:
    if base.metric_std is None or base.metric_std <= base.min_delta:
        return base.min_delta, None
    why = "one standard deviation of the metric between evaluations: a smaller gain is noise"
    row = Resolved(
        field="min_delta",
        before=base.min_delta,
        value=base.metric_std,
        why=why,
        source="standard error of the metric, z = 1",
        confidence="medium",
    )
    return base.metric_std, row
