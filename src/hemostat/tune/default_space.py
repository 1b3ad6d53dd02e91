"""Default space: what is worth tuning for a recipe, in which order and why; the recipe's own values are the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hemostat.config import Config, Resolved
from hemostat.errors import FieldError
from hemostat.recipe import Recipe, scale_lr
from hemostat.tune.space import Choice, Integer, Parameter, Real, Space

RATE_FACTOR: Final = 10.0
DECAY_FACTOR: Final = 30.0
USUAL_DECAY: Final = 0.01
USUAL_WARMUP: Final = 0.02
MIN_WARMUP: Final = 0.005
MAX_WARMUP: Final = 0.2
MAX_DROPOUT: Final = 0.5
_NAMES: Final = ("lr", "batch", "warmup_share", "weight_decay")


class Proposal(Config, frozen=True, kw_only=True):
    """A space and the reason of each of its parameters.

    Attributes:
        space: with the recipe's values as its start.
        reasons: one for each parameter, in the order in which they are worth tuning.
    """

    space: Space
    reasons: tuple[Resolved, ...]


def propose_space(recipe: Recipe, fields: Mapping[str, Any] | None = None, depth: int = 3) -> Proposal:
    """The space in the coordinates of the recipe: `lr` is the rate at the batch that it was tuned at.

    So the rate stays what it is when the batch moves with it: the scaling rule takes that part away.

    Args:
        recipe: what would be trained with.
        fields: hyper-parameters of the task and their values; numbers above 0 and true or false are tuned.
        depth: 1: the learning rate; 2: batch and warm-up too; 3: weight decay, dropout and the task's fields too.

    Raises:
        FieldError: a depth outside 1 to 3.

    Source: that the learning rate comes first and that the others follow it: Godbole et al. 2023, "Deep Learning
        Tuning Playbook", section on scientific, nuisance and fixed hyper-parameters; that batch and warm-up are
        tuned with the rate: Shallue et al. 2019 (arXiv 1811.03600) section 5.
    """
    if depth not in (1, 2, 3):
        raise FieldError("depth", depth, "must be 1, 2 or 3", "1 tunes the learning rate only, 3 everything.")
    found = [_rate(recipe)]
    if depth > 1:
        found += _batch_and_warmup(recipe)
    if depth > 2:
        found += _decay(recipe)
        found += [
            row for name, value in (fields or {}).items() if name not in _NAMES for row in _field(name, value)
        ]
    start = {parameter.name: parameter.checked(value) for parameter, value, _ in found}
    space = Space(tuple(parameter for parameter, _, _ in found), start=start)
    reasons = tuple(
        Resolved(field=parameter.name, value=value, why=why, confidence="medium")
        for parameter, value, why in found
    )
    return Proposal(space=space, reasons=reasons)


def settings_of(recipe: Recipe, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration of the proposed space is for `--set`: names of the recipe's settings and of the task.

    The rate stays the one at the tuned batch; the recipe scales it to `global_batch`.

    Examples:
        >>> from hemostat.recipe import Base, convert
        >>> recipe = convert(Base(lr=1e-3, tuned_batch=32, total_samples=3200))
        >>> settings_of(recipe, {"lr": 0.002, "batch": 64, "warmup_share": 0.1, "dropout": 0.2})
        {'lr': 0.002, 'global_batch': 64, 'new_warmup_steps': 5, 'dropout': 0.2}
    """
    settings: dict[str, Any] = {}
    for name, value in config.items():
        if name == "batch":
            settings["global_batch"] = value
        elif name == "warmup_share":
            num_updates = recipe.total_samples / config.get("batch", recipe.global_batch)
            settings["new_warmup_steps"] = round(value * num_updates)
        else:
            settings[name] = value
    return settings


_Row = tuple[Parameter, Any, str]


def _rate(recipe: Recipe) -> _Row:
    base = recipe.base
    scaled = scale_lr(
        base.lr, tuned_batch=base.tuned_batch, global_batch=recipe.global_batch, optimizer=base.optimizer
    )
    why = (
        f"The learning rate decides most; it is the one at {base.tuned_batch} samples, and the rule "
        f"({recipe.rule or scaled.rule}) takes it to any batch."
    )
    return Real("lr", base.lr / RATE_FACTOR, base.lr * RATE_FACTOR), base.lr, why


def _batch_and_warmup(recipe: Recipe) -> list[_Row]:
    usual = recipe.global_batch
    least = recipe.num_ranks
    values = tuple(sorted({max(least, usual // 4), max(least, usual // 2), usual, usual * 2, usual * 4}))
    rows: list[_Row] = []
    if len(values) > 1:
        why = (
            "The batch sets how many updates a run of this length has, and its noise; it moves with the rate."
        )
        rows.append((Choice("batch", tuple(value - value % least for value in values)), usual, why))
    if recipe.total_steps:
        share = recipe.warmup_steps / recipe.total_steps or USUAL_WARMUP
        why = "A longer warm-up bears a higher rate, so the two are found together."
        low, high = min(share, MIN_WARMUP), max(share, MAX_WARMUP)
        rows.append((Real("warmup_share", low, high, log=True), share, why))
    return rows


def _decay(recipe: Recipe) -> list[_Row]:
    usual = recipe.weight_decay or USUAL_DECAY
    why = "Weight decay is worth tuning once rate and batch are near: its effect is that of rate times decay."
    return [(Real("weight_decay", usual / DECAY_FACTOR, usual * DECAY_FACTOR), usual, why)]


def _field(name: str, value: Any) -> list[_Row]:
    """How a field of the task is tuned; texts and lists are left, for their other values are not known."""
    if isinstance(value, bool):
        return [(Choice(name, (False, True)), value, f"{name} is a switch of the task.")]
    if not isinstance(value, int | float) or value < 0:
        return []
    if "dropout" in name and value <= MAX_DROPOUT:
        why = "Dropout is regularisation: it is worth tuning once the rate is near."
        return [(Real(name, 0.0, MAX_DROPOUT), float(value), why)]
    why = f"{name} is a hyper-parameter of the task; its range is a guess around {value:g}."
    if isinstance(value, int):
        return [(Integer(name, max(1, value // 2), value * 2), value, why)] if value > 0 else []
    if 0 < value < 1 and 1 - value <= 0.1:  # near one, such as a beta: its distance from one is what counts
        return [(Real(name, 1 - 3 * (1 - value), 1 - (1 - value) / 3), value, why)]
    if 0 < value <= 1:
        return [(Real(name, value / 3, min(1.0, value * 3), log=True), value, why)]
    return [(Real(name, value / 3, value * 3, log=True), value, why)] if value > 0 else []
