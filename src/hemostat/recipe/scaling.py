"""Learning rate from one global batch to another: one rule per optimizer family, with its confidence."""

from __future__ import annotations

import math

from hemostat.config import Config
from hemostat.recipe.field_checks import check_int, check_number
from hemostat.recipe.one_device import LR_RULES
from hemostat.recipe.optimizers import optimizer_family

FINETUNE_EXPONENT = 1 / 3
# LARS is used where SGD has left its linear regime; the prior is SGD on ImageNet, known to a factor 3.
LARS_PRIOR_CRITICAL_BATCH = 15_000.0
HIGH_RATIO = 2.0
MEDIUM_RATIO = 8.0
_TIERS = {  # family -> confidence for ratios up to 2, up to 8, beyond
    "sgd": ("high", "medium", "low"),
    "adam": ("high", "medium", "low"),
    "lamb": ("high", "medium", "low"),
    "lars": ("medium", "medium", "low"),
    "adagrad": ("medium", "low", "low"),
    "finetune": ("medium", "low", "low"),
    "muon": ("low", "low", "low"),
}


class ScaledLr(Config, frozen=True, kw_only=True):
    """A learning rate at another global batch.

    Attributes:
        lr: the rate; in tier low only the middle of the sweep.
        rule: constant, linear, sqrt, sat-linear, sat-sqrt, sat^0.75 or cube root.
        tier: "high", "medium" or "low"; "given" where the user forced the rule.
        sweep: rates to try, rising.
        why: one sentence.
        source: where the rule comes from.
        far: the family's own rule would be of low confidence at this distance.
    """

    lr: float
    rule: str
    tier: str
    sweep: tuple[float, ...]
    why: str
    source: str
    far: bool = False


def scale_lr(
    lr: float,
    *,
    tuned_batch: int,
    global_batch: int,
    optimizer: str = "adamw",
    critical_batch: float | None = None,
    finetune: bool = False,
    rule: str | None = None,
) -> ScaledLr:
    """Scale a learning rate by the ratio of global batches, k = global_batch / tuned_batch.

    SGD: k, or k (1 + B0/Bc) / (1 + B/Bc) where a critical batch Bc is known. Adam, RMSProp, Lion: sqrt(k),
    or that saturating ratio to the power 0.75, never above linear and flat above Bc. LAMB: sqrt(k), flat
    above Bc. LARS: square root of the saturating ratio. Adagrad: constant. Fine-tuning: cube root of k.

    Args:
        lr: the rate that works at tuned_batch.
        tuned_batch: global batch at which it was tuned, in samples.
        global_batch: global batch now, in samples.
        optimizer: its name.
        critical_batch: batch at which the samples to a target double, in samples; None: not known.
        finetune: the run starts from a trained checkpoint.
        rule: "constant", "linear" or "sqrt" to force one: always one number, with tier "given".

    Raises:
        FieldError: a rate or a batch that is not above 0, an unknown optimizer or rule.

    Source: linear Goyal et al. 2017 (arXiv 1706.02677) section 2.1; square root Malladi et al. 2022
        (arXiv 2205.10287) Def. 5.2; saturation McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.6.

    Examples:
        >>> scale_lr(0.1, tuned_batch=128, global_batch=1024, optimizer="sgd").lr
        0.8
        >>> scale_lr(1e-3, tuned_batch=256, global_batch=1024).lr
        0.002
        >>> scale_lr(0.1, tuned_batch=128, global_batch=128, optimizer="sgd").why
        'the global batch is the same, so the rate must not move'
    """
    check_number("lr", lr, above=0.0)
    check_int("tuned_batch", tuned_batch, minimum=1)
    check_int("global_batch", global_batch, minimum=1)
    check_number("critical_batch", critical_batch, above=0.0)
    family = optimizer_family(optimizer)
    if global_batch == tuned_batch:
        why = "the global batch is the same, so the rate must not move"
        return _scaled(lr, (1.0, "constant", why, "Goyal et al. 2017 (arXiv 1706.02677) section 2.1"), "high")
    kind = "finetune" if finetune else family
    tier = _tier(kind, tuned_batch, global_batch, critical_batch)
    if rule is not None:
        return _scaled(lr, _forced(rule, global_batch / tuned_batch), "given", far=tier == "low")
    answer = _RULES[kind](float(tuned_batch), float(global_batch), critical_batch)
    return _scaled(lr, answer, tier, far=tier == "low")


Answer = tuple[float, str, str, str]  # factor, rule, why, source


def _scaled(lr: float, answer: Answer, tier: str, far: bool = False) -> ScaledLr:
    factor, rule, why, source = answer
    spread = (0.25, 0.5, 1.0, 2.0, 4.0) if far else (0.5, 1.0, 2.0)
    sweep = tuple(lr * factor * width for width in spread)
    return ScaledLr(lr=lr * factor, rule=rule, tier=tier, sweep=sweep, why=why, source=source, far=far)


def saturating_ratio(batch_before: float, batch_after: float, critical_batch: float) -> float:
    """k (1 + B0/Bc) / (1 + B/Bc): linear far below the critical batch, flat far above it.

    Also AdaScale's gain with var/sqr = Bc/B0.

    Source: McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.6: lr = lr_max / (1 + Bn/B).

    Examples:
        >>> round(saturating_ratio(1, 8, 15), 3)
        5.565
    """
    return batch_after * (critical_batch + batch_before) / (batch_before * (critical_batch + batch_after))


def _sgd(before: float, after: float, critical: float | None) -> Answer:
    k = after / before
    if critical is None:
        return k, "linear", f"SGD: linear in the batch, x{k:.4g}", "Goyal et al. 2017 (arXiv 1706.02677) 2.1"
    factor = saturating_ratio(before, after, critical)
    why = f"SGD: linear that saturates at the critical batch {critical:.0f}, x{factor:.4g} where k = {k:.4g}"
    return factor, "sat-linear", why, "McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.6"


def _adam(before: float, after: float, critical: float | None) -> Answer:
    k = after / before
    if critical is None:
        source = "Malladi et al. 2022 (arXiv 2205.10287) Def. 5.2"
        return math.sqrt(k), "sqrt", f"Adam-like: square root of the batch ratio {k:.4g}", source
    low, high = _up_to(before, after, critical)
    factor = saturating_ratio(low, high, critical) ** 0.75
    why = f"Adam-like: saturating at the critical batch {critical:.0f}, x{factor:.4g} where k = {k:.4g}"
    source = "McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.6 and App. E.2 (exponent 0.5 to 1)"
    return factor, "sat^0.75", why, source


def _lamb(before: float, after: float, critical: float | None) -> Answer:
    low, high = (before, after) if critical is None else _up_to(before, after, critical)
    factor = math.sqrt(high / low)
    flat = "" if critical is None else f", flat above the critical batch {critical:.0f}"
    why = f"LAMB: square root of the batch ratio{flat}, x{factor:.4g}"
    return factor, "sqrt", why, "You et al. 2019 (arXiv 1904.00962), the untuned table"


def _lars(before: float, after: float, critical: float | None) -> Answer:
    known = critical if critical is not None else LARS_PRIOR_CRITICAL_BATCH
    factor = math.sqrt(saturating_ratio(before, after, known))
    prior = "" if critical is not None else " (prior from SGD on ImageNet, known to a factor 3)"
    why = f"LARS: square root that saturates at the critical batch {known:.0f}{prior}, x{factor:.4g}"
    source = "McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.6 and table 1, for a normalised step"
    return factor, "sat-sqrt", why, source


def _adagrad(before: float, after: float, critical: float | None) -> Answer:
    why = "Adagrad and sparse embeddings: the rate stays, its sum of squares scales already"
    return 1.0, "constant", why, "MLPerf reference convergence points, DLRM: exponent -0.1 to 0"


def _finetune(before: float, after: float, critical: float | None) -> Answer:
    factor = (after / before) ** FINETUNE_EXPONENT
    why = f"fine-tuning: between constant and square root, cube root of the batch ratio, x{factor:.4g}"
    return factor, "cube root", why, "MLPerf reference convergence points, LoRA: exponents 0 to 0.66"


def _muon(before: float, after: float, critical: float | None) -> Answer:
    factor = math.sqrt(after / before)
    return factor, "sqrt", "Muon: square root by analogy with Adam only", "no published test; analogy"


_RULES = {
    "sgd": _sgd,
    "adam": _adam,
    "lamb": _lamb,
    "lars": _lars,
    "adagrad": _adagrad,
    "finetune": _finetune,
    "muon": _muon,
}


def _up_to(before: float, after: float, critical: float) -> tuple[float, float]:
    """Clip both batches where the rate no longer grows; a batch tuned above the limit stays flat."""
    return min(before, critical), min(after, critical)


def _forced(rule: str, k: float) -> Answer:
    from hemostat.errors import UnknownNameError

    if rule not in LR_RULES:
        raise UnknownNameError("lr_rule", rule, LR_RULES)
    factor = {"constant": 1.0, "linear": k, "sqrt": math.sqrt(k)}[rule]
    return factor, rule, f"you asked for the {rule} rule, x{factor:.4g}", "given"


def _tier(kind: str, before: int, after: int, critical: float | None) -> str:
    # A smaller batch is as far away as a larger one.
    ratio = max(after / before, before / after)
    column = 0 if ratio <= HIGH_RATIO else 1 if ratio <= MEDIUM_RATIO else 2
    if kind == "sgd" and column == 1 and critical is not None and after <= critical:
        return "high"
    return _TIERS[kind][column]
