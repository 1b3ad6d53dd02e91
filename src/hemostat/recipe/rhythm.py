"""Rhythm of a run: evaluation period, patience and plateau halving at a new global batch."""

from __future__ import annotations

from typing import NamedTuple

from hemostat.config import Resolved
from hemostat.recipe.length import steps_from_samples
from hemostat.recipe.one_device import ANNEALED, Base
from hemostat.recipe.patience import MIN_PATIENCE, convert_patience, shorter_patience

EVALS_PER_RUN = 20
_WINDOW_SOURCE = "exact change of units; McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11 for the stretch"


class Change(NamedTuple):
    """What moved between one device and now.

    Attributes:
        batch: global batch now.
        eval_samples: samples between evaluations asked for now; None: as before.
        stretch: samples now over samples before, for the same target.
        total_samples: length of the run; 0: not known.
    """

    batch: int
    eval_samples: int | None
    stretch: float
    total_samples: int


class Rhythm(NamedTuple):
    """When a run is evaluated and when it gives up; the rows say why."""

    eval_every_samples: int
    eval_every_steps: int
    patience_evals: int | None
    plateau_patience: int | None
    min_delta: float
    rows: tuple[Resolved, ...]


def derive_rhythm(base: Base, change: Change) -> Rhythm:
    """Evaluation period in steps, patience in evaluations, and a plateau patience that fits before the stop.

    Source: the window in samples is kept (exact); floor of 3 evaluations against noise; a plateau halving
        at half of the window leaves the other half to the halved rate.

    Examples:
        >>> base = Base(tuned_batch=128, patience=10, eval_every_samples=128_000, schedule="constant")
        >>> rhythm = derive_rhythm(base, Change(1024, None, 1.0, 0))
        >>> rhythm.eval_every_steps, rhythm.patience_evals, rhythm.plateau_patience
        (125, 10, 4)
    """
    period, period_row = _eval_period(base, change)
    patience, patience_row = _patience(base, change, period)
    plateau, plateau_row = _plateau(base, change, patience)
    delta, delta_row = _min_delta(base)
    rows = tuple(row for row in (period_row, patience_row, plateau_row, delta_row) if row is not None)
    steps = steps_from_samples(period, change.batch, base.num_train_samples) if period else 0
    return Rhythm(period, steps, patience, plateau, delta, rows)


def _eval_period(base: Base, change: Change) -> tuple[int, Resolved | None]:
    before = base.eval_every_samples
    period, source, confidence = change.eval_samples or before, "exact change of units", "high"
    why = "the same samples between evaluations" if change.eval_samples is None else "as you asked"
    if period is None:
        if not change.total_samples:
            return 0, None
        period = max(1, change.total_samples // EVALS_PER_RUN)
        period = min(period, base.num_train_samples or period)
        why = f"once an epoch, and at least {EVALS_PER_RUN} times in the run"
        source, confidence = "practice: fewer evaluations cannot show a plateau", "medium"
    row = Resolved(
        field="eval_every_steps",
        before=None
        if before is None
        else steps_from_samples(before, base.tuned_batch, base.num_train_samples),
        value=steps_from_samples(period, change.batch, base.num_train_samples),
        why=f"{why}: {period} samples",
        source=source,
        confidence=confidence,
    )
    return period, row


def _patience(base: Base, change: Change, period: int) -> tuple[int | None, Resolved | None]:
    had, before = base.patience, base.eval_every_samples
    if had is None:
        return None, None
    same_rhythm = change.eval_samples is None or change.eval_samples == before
    if change.batch == base.tuned_batch and same_rhythm:
        value, why, confidence = had, "the same global batch and rhythm", "high"
    elif before is None:
        value, confidence = shorter_patience(had), "low"
        why = "the rhythm on one device is not known: a third to a half shorter (give eval_every_samples)"
    else:
        value = convert_patience(
            had, samples_before=before, samples_after=period, stretch=change.stretch, minimum=MIN_PATIENCE
        )
        why = f"the same window: {had} x {before} samples / {period}"
        why += "" if change.stretch == 1.0 else f", stretched x{change.stretch:.2f} beyond the critical batch"
        confidence = "high" if base.critical_batch is not None else "medium"
    row = Resolved(
        field="patience_evals",
        before=had,
        value=value,
        why=why,
        source="practice" if before is None and value != had else _WINDOW_SOURCE,
        confidence=confidence,
    )
    return value, row


def _plateau(base: Base, change: Change, patience: int | None) -> tuple[int | None, Resolved | None]:
    had = base.plateau_patience
    if had is None and (patience is None or base.schedule in ANNEALED):
        return None, None
    # A halving at bad evaluation p + 1 must leave evaluations for the halved rate before the stop.
    most = None if patience is None else max(0, patience // 2 - 1)
    if had is None:
        value, why = most or 0, "halves the rate in the middle of the patience window"
    elif change.batch == base.tuned_batch and change.eval_samples is None:
        value, why = had, "the same global batch and rhythm"
    else:
        period = base.eval_every_samples or 1
        value = convert_patience(
            had,
            samples_before=period,
            samples_after=change.eval_samples or period,
            stretch=change.stretch,
            minimum=2,
        )
        why = "the same window in samples"
    if had is not None and most is not None and patience is not None and value + 1 >= patience:
        value, why = most, f"lowered: patience {patience} would stop the run before the rate is halved"
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
