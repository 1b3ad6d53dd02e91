"""convert: one-device hyper-parameters to N devices, step by step in the order of docs/recipe.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hemostat.config import Resolved
from hemostat.findings import Finding
from hemostat.recipe.advice import advise
from hemostat.recipe.batch import Batch, Devices, split_batch
from hemostat.recipe.checks import find_batch_risks, find_far_lr, find_run_risks, refuse
from hemostat.recipe.critical import BatchRun
from hemostat.recipe.double_scaling import find_double_scaling
from hemostat.recipe.laws import find_odd_lr
from hemostat.recipe.one_device import ANNEALED, Base
from hemostat.recipe.optimizers import second_moment
from hemostat.recipe.options import batch_rows, list_options, lr_row, scale_base
from hemostat.recipe.precision import precision_for
from hemostat.recipe.recipe import Recipe
from hemostat.recipe.rhythm import Change, Rhythm, derive_rhythm
from hemostat.recipe.run_length import Length, derive_length, derive_schedule, find_critical_batch
from hemostat.recipe.scaling import ScaledLr
from hemostat.recipe.schedule import Schedule
from hemostat.recipe.settled import settled_rows


def convert(base: Base, devices: Devices | None = None, runs: Sequence[BatchRun] = ()) -> Recipe:
    """Work out the recipe for N devices.

    Args:
        base: what works on one device.
        devices: what one has now; None: one device, nothing moves.
        runs: the user's own runs at three or more batches, for a critical batch.

    Returns:
        The recipe, with a reason for every value.

    Raises:
        FieldError: contradictory or impossible values; a batch beyond the critical one without the yes.

    Examples:
        >>> base = Base(optimizer="sgd", lr=0.1, tuned_batch=128)
        >>> convert(base, Devices(num_ranks=8, micro_batch=16)).lr  # the same 128: nothing moves
        0.1
        >>> recipe = convert(base, Devices(num_ranks=8, micro_batch=128))
        >>> recipe.global_batch, recipe.lr, recipe.warmup_steps, recipe.tier
        (1024, 0.8, 500, 'medium')
    """
    devices = Devices() if devices is None else devices
    batch = split_batch(
        base.tuned_batch,
        num_ranks=devices.num_ranks,
        micro_batch=devices.micro_batch,
        accumulation=devices.accumulation,
        global_batch=devices.global_batch,
    )
    critical, critical_row = find_critical_batch(base, runs)
    refuse(base, batch, critical)
    scaled = scale_base(base, batch.global_batch, critical)
    length = derive_length(base, batch.global_batch, critical)
    advice = advise(base, batch.global_batch, batch.micro_batch, scaled.lr / base.lr)
    applied = {row.field: row for row in advice if row.field in base.apply_advice}
    beta2 = applied["beta2"].value if "beta2" in applied else second_moment(base.optimizer, base.beta2)
    schedule, schedule_rows = derive_schedule(base, devices, batch.global_batch, scaled, length, beta2)
    rhythm = derive_rhythm(base, _change(devices, batch, length))
    precision = _precision(base, devices)
    rows = [*batch_rows(base, batch), lr_row(base, scaled), *schedule_rows, *length.rows, *rhythm.rows]
    rows += [*applied.values(), precision, critical_row]
    rows += settled_rows(base, schedule, batch.num_ranks, {row.field for row in rows})
    parts = _Parts(base, batch, scaled, schedule, rhythm, critical)
    recipe = _assemble(parts, applied)
    return msgspec.structs.replace(
        recipe,
        total_samples=length.samples,
        precision=precision.value,
        samples_stretch=length.stretch,
        values=tuple(rows),
        advice=tuple(row for row in advice if row.field not in applied),
        alternatives=list_options(base, batch, critical),
        findings=tuple(_findings(parts)),
    )


def _change(devices: Devices, batch: Batch, length: Length) -> Change:
    return Change(
        batch=batch.global_batch,
        eval_samples=devices.new_eval_every_samples,
        stretch=length.stretch,
        total_samples=length.samples,
        checkpoint_samples=devices.new_checkpoint_every_samples,
    )


class _Parts(NamedTuple):
    """What has been worked out."""

    base: Base
    batch: Batch
    scaled: ScaledLr
    schedule: Schedule
    rhythm: Rhythm
    critical: float | None


def _assemble(parts: _Parts, applied: dict[str, Resolved]) -> Recipe:
    base, batch, scaled, schedule, rhythm, critical = parts

    def value(field: str) -> float | None:
        return float(applied[field].value) if field in applied else getattr(base, field)

    return Recipe(
        optimizer=base.optimizer,
        lr=scaled.lr,
        global_batch=batch.global_batch,
        micro_batch=batch.micro_batch,
        accumulation=batch.accumulation,
        num_ranks=batch.num_ranks,
        batch_ratio=batch.global_batch / base.tuned_batch,
        total_steps=schedule.total_steps,
        warmup_steps=schedule.warmup_steps,
        schedule=schedule,
        eval_every_samples=rhythm.eval_every_samples,
        eval_every_steps=rhythm.eval_every_steps,
        checkpoint_every_samples=rhythm.checkpoint_every_samples,
        checkpoint_every_steps=rhythm.checkpoint_every_steps,
        patience_evals=rhythm.patience_evals,
        plateau_patience=rhythm.plateau_patience,
        plateau_factor=base.plateau_factor,
        min_delta=rhythm.min_delta,
        metric_mode=base.metric_mode,
        not_before_step=schedule.total_steps if base.schedule in ANNEALED else schedule.warmup_steps,
        momentum=base.momentum,
        beta1=base.beta1,
        beta2=value("beta2"),
        eps=value("eps"),
        weight_decay=value("weight_decay"),
        ema=value("ema"),
        clip_norm=value("clip_norm"),
        tier=scaled.tier,
        rule=scaled.rule,
        sweep=scaled.sweep,
        critical_batch=critical,
        base=base,
    )


def _precision(base: Base, devices: Devices) -> Resolved:
    if base.precision is not None:
        return Resolved(field="precision", value=base.precision, why="you set it")
    return precision_for(devices.device)


def _findings(parts: _Parts) -> list[Finding]:
    base, batch, scaled, schedule, rhythm, critical = parts
    k = batch.global_batch / base.tuned_batch
    found = find_double_scaling(base, scaled.lr / base.lr, k)
    found += find_odd_lr(base)
    found += find_batch_risks(base, batch, critical)
    found += find_run_risks(base, schedule, eval_every_steps=rhythm.eval_every_steps, moved=k != 1.0)
    if scaled.far:
        found.append(find_far_lr(scaled.rule, k, forced=scaled.tier == "given"))
    return found
