"""Critical batch, length and schedule of the run at the new global batch, each with its row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from hemostat.config import Resolved
from hemostat.recipe.batch import Devices
from hemostat.recipe.critical import WARNING_SHARE, BatchRun, fit_critical_batch, samples_stretch
from hemostat.recipe.length import convert_length, samples_from_epochs, steps_from_samples
from hemostat.recipe.one_device import Base
from hemostat.recipe.optimizers import optimizer_family
from hemostat.recipe.scaling import ScaledLr
from hemostat.recipe.schedule import Schedule
from hemostat.recipe.warmup import convert_warmup

_UNITS = {"total_steps": "steps", "total_samples": "samples", "total_tokens": "tokens", "epochs": "epochs"}
_LAW = "McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11"


def run_samples(base: Base) -> int:
    """Length of the one-device run in samples; 0 where neither it nor the data set's size is given.

    Examples:
        >>> run_samples(Base(epochs=3, num_train_samples=1000)), run_samples(Base(epochs=3))
        (3000, 0)
        >>> run_samples(Base(num_train_samples=1000))  # one epoch where nothing is said
        1000
    """
    if base.total_samples is not None:
        return base.total_samples
    if base.num_train_samples is None:
        return 0
    return samples_from_epochs(1.0 if base.epochs is None else base.epochs, base.num_train_samples)


class Length(NamedTuple):
    """Length of the run and what it costs at the new batch; 0 samples and steps where it is not known."""

    samples: int
    steps: int
    stretch: float
    rows: tuple[Resolved, ...]


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
        return Length(0, 0, stretch, ())
    sizes = {
        "num_train_samples": base.num_train_samples,
        "sample_tokens": base.sample_tokens if base.sample_tokens > 1 else None,
    }
    had = convert_length(samples=before, global_batch=base.tuned_batch, **sizes)
    now = convert_length(samples=samples, global_batch=global_batch, **sizes)
    rows = []
    for field, unit in _UNITS.items():
        if getattr(now, unit) is not None:
            row = Resolved(
                field=field,
                before=getattr(had, unit),
                value=getattr(now, unit),
                why=f"{why}: {samples}" if unit == "steps" else why,
                source=_LAW if samples != before else "definition",
                confidence="medium" if samples != before else "high",
            )
            rows.append(row)
    return Length(samples, now.steps, stretch, tuple(rows))


def derive_schedule(
    base: Base,
    devices: Devices,
    global_batch: int,
    scaled: ScaledLr,
    length: Length,
    adam_beta2: float | None = None,
) -> tuple[Schedule, list[Resolved]]:
    """Warm-up and decay as one function of the step.

    Args:
        base: what works on one device.
        devices: what one has now.
        global_batch: samples behind one update now.
        scaled: the rate now.
        length: length of the run now.
        adam_beta2: factor of Adam's second moment in this run; None where the optimizer has none.

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
        adam_beta2=adam_beta2,
        epoch_steps=_epoch_steps(base, global_batch) if family in ("sgd", "lars") else None,
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


def _epoch_steps(base: Base, global_batch: int) -> int | None:
    return None if base.num_train_samples is None else -(-base.num_train_samples // global_batch)


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
