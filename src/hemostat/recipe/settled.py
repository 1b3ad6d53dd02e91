"""Rows for every hyper-parameter that no rule moved: set by the user, a default, or not used."""

from __future__ import annotations

from typing import Any

from hemostat.config import Resolved
from hemostat.recipe.one_device import ANNEALED, Base
from hemostat.recipe.optimizers import DEFAULTS, optimizer_name
from hemostat.recipe.schedule import Schedule

_OF_OPTIMIZER = ("momentum", "beta1", "beta2", "eps", "weight_decay")
_SET = "as on one device, you set it"
# field of the recipe -> field of Base, where it differs
_NAMES = {
    "patience_evals": "patience",
    "eval_every_steps": "eval_every_samples",
    "checkpoint_every_steps": "checkpoint_every_samples",
}
_UNUSED = {
    "clip_norm": "not used: gradients are not clipped",
    "ema": "not used: no average of the weights",
    "eta_min": "no floor: the rate may fall to 0",
    "patience_evals": "not used: the run does not stop early",
    "plateau_patience": "not used: the rate is not lowered on a plateau",
    "eval_every_steps": "not known: give eval_every_samples, or the length of the run",
    "checkpoint_every_steps": "not asked: weights are saved with evaluations and at the end",
    "total_samples": "not known: give epochs and num_train_samples, or total_samples",
    "total_steps": "not known: give epochs and num_train_samples, or total_samples",
}
# Names and switches that a batch does not move.
_CHOICES = ("optimizer", "schedule", "metric_mode", "monitor", "min_delta", "plateau_factor")


def settled_rows(base: Base, schedule: Schedule, num_ranks: int, taken: set[str]) -> list[Resolved]:
    """A row for every hyper-parameter of the run that has none yet.

    Args:
        base: what works on one device.
        schedule: the schedule now.
        num_ranks: data-parallel ranks.
        taken: fields that a rule has given a row.

    Examples:
        >>> schedule = Schedule(peak_lr=0.1)
        >>> rows = {row.field: row for row in settled_rows(Base(optimizer="sgd", momentum=0.9), schedule, 1, set())}
        >>> rows["momentum"].value, rows["momentum"].why
        (0.9, 'as on one device, you set it')
        >>> rows["weight_decay"].value, rows["beta1"].why
        (0.0, 'not used: sgd has none')
    """
    rows = [_choice(base, field) for field in _CHOICES]
    rows += [_shape(base, schedule, field) for field in _shape_fields(base)]
    rows += [_of_optimizer(base, field) for field in _OF_OPTIMIZER]
    rows += [_unused(base, field) for field in _UNUSED]
    rows.append(_row("num_ranks", 1, num_ranks, "the devices that you have"))
    rows.append(_not_before(base, schedule))
    return [row for row in rows if row.field not in taken]


def _row(field: str, before: Any, value: Any, why: str, source: str = "") -> Resolved:
    return Resolved(field=field, before=before, value=value, why=why, source=source)


def _choice(base: Base, field: str) -> Resolved:
    value = getattr(base, field)
    usual = value == getattr(Base(), field)
    return _row(field, value, value, "the default, unless you set it" if usual else _SET)


def _shape_fields(base: Base) -> tuple[str, ...]:
    return ("start_lr", *{"wsd": ("decay_share",), "step": ("gamma",)}.get(base.schedule, ()))


def _shape(base: Base, schedule: Schedule, field: str) -> Resolved:
    if field != "start_lr":
        return _choice(base, field)
    if base.start_lr is not None:
        return _row(field, base.start_lr, schedule.start_lr, _SET)
    return Resolved(
        field=field,
        value=schedule.start_lr,
        why="the warm-up starts at the rate that worked" if schedule.start_lr else "the warm-up starts at 0",
        source="Goyal et al. 2017 (arXiv 1706.02677) section 2.2",
        confidence="medium",
    )


def _of_optimizer(base: Base, field: str) -> Resolved:
    name, given = optimizer_name(base.optimizer), getattr(base, field)
    takes = DEFAULTS[name]
    if field not in takes:
        why = f"not used: {name} has none"
        return _row(field, given, None, why if given is None else f"{why}, so yours has no effect")
    if given is not None:
        return _row(field, given, given, _SET)
    default = takes[field]
    if default is None:
        return _row(field, None, None, f"left to the {name} that you build")
    why = "not set: the optimizer's default, unless you build the optimizer yourself"
    return _row(field, default, default, why, f"torch.optim, {name}")


def _unused(base: Base, field: str) -> Resolved:
    value = getattr(base, _NAMES.get(field, field), None)
    return _row(field, value, value, _SET if value else _UNUSED[field])


def _not_before(base: Base, schedule: Schedule) -> Resolved:
    annealed = base.schedule in ANNEALED
    return Resolved(
        field="not_before_step",
        value=schedule.total_steps if annealed else schedule.warmup_steps,
        why="no early stop before the decay has ended"
        if annealed
        else "no early stop before the warm-up has ended",
        source="a decay gains most at its end; a rate below its peak looks like a plateau",
        confidence="high",
    )
