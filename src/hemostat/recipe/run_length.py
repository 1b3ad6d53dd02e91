"""Critical batch, length and schedule of the run at the new global batch, each with its row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hemostat.config import Resolved
from hemostat.recipe.advice import DEFAULT_BETA2
from hemostat.recipe.batch import Devices
from hemostat.recipe.critical import WARNING_SHARE, BatchRun, fit_critical_batch, samples_stretch
from hemostat.recipe.length import run_samples, samples_from_epochs, steps_from_samples
from hemostat.recipe.one_device import Base
from hemostat.recipe.optimizers import optimizer_family
from hemostat.recipe.scaling import ScaledLr
from hemostat.recipe.schedule import Schedule
from hemostat.recipe.warmup import convert_warmup

_LAW = "McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11"


class Length(NamedTuple):
    """Length of the run and what it costs at the new batch; 0 samples and steps where it is not known."""

    samples: int
    steps: int
    stretch: float
    row: Resolved | None


def find_critical_batch(base: Base, runs: Sequence[BatchRun]) -> tuple[float | None, Resolved]:
    """The critical batch: given, else fitted from runs, else not known.

    Source: McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11, by `fit_critical_batch`.
    """
    if base.critical_batch is not None:
        return base.critical_batch, Resolved(
            field="critical_batch", value=base.critical_batch, why="you gave it"
        )
    if not runs:
        why = "not known; `hemostat train` measures it, or give --runs at three batches"
        return None, Resolved(field="critical_batch", value="not known", why=why, confidence="low")
    fit = fit_critical_batch(runs)
    known = math.isfinite(fit.critical_batch)
    why = (
        f"fitted from {fit.num_runs} batches, rms error {100 * fit.rms_log_error:.1f} %, "
        f"between {fit.low:.3g} and {fit.high:.3g}"
    )
    if not known:
        why = f"the {fit.num_runs} runs show no rise in samples: it lies far above the batches tried"
    return fit.critical_batch if known else None, Resolved(
        field="critical_batch",
        value=round(fit.critical_batch) if known else "not known",
        why=why,
        source=_LAW,
        confidence="medium" if known and fit.high < 4 * fit.low else "low",
    )


def derive_length(base: Base, global_batch: int, critical: float | None) -> Length:
    """Same samples; times the bill where the user accepted it."""
    before = run_samples(base)
    stretch, samples, why = 1.0, before, "the same samples as on one device"
    if critical is not None and global_batch > max(base.tuned_batch, WARNING_SHARE * critical):
        stretch = samples_stretch(base.tuned_batch, global_batch, critical)
        if base.accept_bill:
            samples = math.ceil(before * stretch)
            why = f"x{stretch:.2f} the samples, the bill you accepted for the same quality"
    if not before:
        return Length(0, 0, stretch, None)
    steps = steps_from_samples(samples, global_batch, base.num_train_samples)
    row = Resolved(
        field="total_steps",
        before=steps_from_samples(before, base.tuned_batch, base.num_train_samples),
        value=steps,
        why=f"{why}: {samples}",
        source=_LAW if samples != before else "definition",
        confidence="medium" if samples != before else "high",
    )
    return Length(samples, steps, stretch, row)


def derive_schedule(
    base: Base, devices: Devices, global_batch: int, scaled: ScaledLr, length: Length
) -> tuple[Schedule, list[Resolved]]:
    """Warm-up and decay as one function of the step.

    Raises:
        FieldError: a warm-up longer than half of the run, or beyond the first milestone.
    """
    k = global_batch / base.tuned_batch
    factor = scaled.lr / base.lr
    family = optimizer_family(base.optimizer)
    marks = _milestone_steps(base, global_batch, length)
    warm = convert_warmup(
        base.warmup_steps,
        batch_ratio=k,
        # A step schedule has warmed up well before its first milestone.
        total_steps=min(length.steps, marks[0]) if marks and length.steps else length.steps,
        adam_beta2=(base.beta2 or DEFAULT_BETA2) if family in ("adam", "lamb") else None,
        epoch_steps=None if base.num_train_samples is None else -(-base.num_train_samples // global_batch),
        stretch=length.stretch if family in ("lamb", "lars") else 1.0,
    )
    steps, why, source, confidence = warm.steps, warm.why, warm.source, "high" if k == 1.0 else "medium"
    if devices.new_warmup_steps is not None:
        steps, why, source, confidence = devices.new_warmup_steps, "you set it", "", "given"
    start_lr = base.start_lr
    if start_lr is None:
        start_lr = base.lr if family in ("sgd", "lars") and factor > 1.0 else 0.0
    schedule = Schedule(
        kind=base.schedule,
        peak_lr=scaled.lr,
        start_lr=start_lr,
        warmup_steps=steps,
        total_steps=length.steps,
        # The same product for equal rates, so that eta_min = lr never ends above the peak.
        eta_min=min(base.eta_min * factor, scaled.lr),
        decay_steps=math.ceil(base.decay_share * length.steps) if base.schedule == "wsd" else 0,
        milestones_steps=marks,
        gamma=base.gamma,
    )
    had = base.warmup_steps or 0
    rows = [
        Resolved(field="warmup_steps", before=had, value=steps, why=why, source=source, confidence=confidence)
    ]
    return schedule, rows + _schedule_rows(base, schedule)


def _schedule_rows(base: Base, schedule: Schedule) -> list[Resolved]:
    rows = []
    if base.eta_min:
        why = "the floor keeps its share of the peak"
        rows.append(_exact("eta_min", base.eta_min, schedule.eta_min, why))
    if schedule.milestones_steps:
        why = "the same samples: epochs times steps per epoch"
        rows.append(_exact("milestones", list(base.milestones), list(schedule.milestones_steps), why))
    return rows


def _exact(field: str, before: object, value: object, why: str) -> Resolved:
    return Resolved(
        field=field, before=before, value=value, why=why, source="exact change of units", confidence="high"
    )


def _milestone_steps(base: Base, global_batch: int, length: Length) -> tuple[int, ...]:
    n = base.num_train_samples
    if n is None or not base.milestones:
        return ()
    longer = length.samples / run_samples(base)
    samples = [samples_from_epochs(epoch * longer, n) for epoch in base.milestones]
    return tuple(steps_from_samples(count, global_batch, n) for count in samples)
