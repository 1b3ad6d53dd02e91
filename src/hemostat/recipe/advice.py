"""Advice on weight decay, beta2, eps, EMA, BatchNorm, clipping and the optimizer; off by default."""

from __future__ import annotations

import math

from hemostat.config import Resolved
from hemostat.recipe.one_device import Base
from hemostat.recipe.optimizers import DECOUPLED, optimizer_family, optimizer_name, second_moment
from hemostat.recipe.patience import accuracy_noise

_BETA2_RANGE = (0.9, 0.9999)
_MAX_WEIGHT_DECAY = 0.3
_SGD_LINEAR_LIMIT = 8192


def per_step_average(keep: float, batch_ratio: float) -> float:
    """keep^k: any per-step average (EMA of weights, BatchNorm statistics) at k times the batch.

    Source: Busbridge et al. 2023 (arXiv 2307.13813), the EMA scaling rule.

    Examples:
        >>> round(per_step_average(0.9999, 8), 6)
        0.9992
    """
    return float(keep**batch_ratio)


def scale_beta2(beta2: float, batch_ratio: float) -> float:
    """beta2^k: Adam's second moment keeps its half-life in samples; within 0.9 and 0.9999.

    Source: Marek et al. 2025 (arXiv 2507.07101).

    Examples:
        >>> round(scale_beta2(0.999, 4), 6), round(scale_beta2(0.95, 1 / 512), 6)
        (0.996006, 0.9999)
    """
    low, high = _BETA2_RANGE
    # Never beyond the range on account of the rule; a value given outside it stays.
    return float(min(max(beta2**batch_ratio, min(low, beta2)), max(high, beta2)))


def scale_weight_decay(
    weight_decay: float, *, batch_ratio: float, lr_factor: float, decoupled: bool
) -> float:
    """Decoupled decay keeps lr * wd / batch, its time scale in samples: wd k / lr_factor. Coupled L2 stays.

    Source: Wang & Aitchison 2024 (arXiv 2405.13698); Bergsma et al. 2025 (arXiv 2505.13738).

    Examples:
        >>> scale_weight_decay(0.1, batch_ratio=4, lr_factor=2, decoupled=True)
        0.2
        >>> scale_weight_decay(0.1, batch_ratio=4, lr_factor=4, decoupled=True)
        0.1
    """
    if not decoupled:
        return weight_decay
    scaled = weight_decay * batch_ratio / lr_factor
    return scaled if scaled <= weight_decay else max(min(scaled, _MAX_WEIGHT_DECAY), weight_decay)


def scale_clip_norm(clip_norm: float, batch_before: int, batch_after: int, noise_scale: float) -> float:
    """Threshold that clips the same share of steps: c sqrt((1 + Bn/B) / (1 + Bn/B0)).

    Source: McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.10, E|g_B|^2 = |G|^2 (1 + Bn/B).

    Examples:
        >>> round(scale_clip_norm(1.0, 100, 400, noise_scale=300), 4)
        0.6614
    """
    return clip_norm * math.sqrt((1 + noise_scale / batch_after) / (1 + noise_scale / batch_before))


def is_decoupled(base: Base) -> bool:
    """Whether lr multiplies the weight decay, as in AdamW."""
    if base.decoupled_weight_decay is not None:
        return base.decoupled_weight_decay
    return optimizer_name(base.optimizer) in DECOUPLED


def advise(base: Base, global_batch: int, micro_batch: int, lr_factor: float) -> list[Resolved]:
    """Rows of advice at another global batch; a row is applied where base.apply_advice names its field.

    Returns:
        Resolved rows; without a change of the global batch only those on BatchNorm and on noise.
    """
    k = global_batch / base.tuned_batch
    rows: list[Resolved] = []
    if k != 1.0:
        rows += _weight_decay(base, k, lr_factor)
        rows += _adam_constants(base, k)
        if base.ema is not None:
            value = per_step_average(base.ema, k)
            source = "Busbridge et al. 2023 (arXiv 2307.13813)"
            rows.append(_row("ema", base.ema, value, "keep^k: the same memory in samples", source, "high"))
        rows += _clipping(base, global_batch)
        rows += _optimizer_switch(base, global_batch, k)
    rows += _noise_floor(base)
    if base.batch_norm:
        rows.append(_batch_norm(micro_batch))
    return rows


def _row(field: str, before: object, value: object, why: str, source: str, confidence: str) -> Resolved:
    return Resolved(field=field, before=before, value=value, why=why, source=source, confidence=confidence)


def _noise_floor(base: Base) -> list[Resolved]:
    """An accuracy is only known to its standard error; a loss needs metric_std."""
    if base.patience is None or base.num_val_samples is None or base.metric_mode != "max":
        return []
    noise = accuracy_noise(0.5, base.num_val_samples)
    if max(base.min_delta, base.metric_std or 0.0) >= noise:
        return []
    why = f"an accuracy over {base.num_val_samples} samples is uncertain by up to this; smaller gains may be noise"
    return [_row("min_delta", base.min_delta, noise, why, "binomial standard error at p = 0.5", "medium")]


def _weight_decay(base: Base, k: float, lr_factor: float) -> list[Resolved]:
    if not base.weight_decay:
        return []
    decoupled = is_decoupled(base)
    value = scale_weight_decay(base.weight_decay, batch_ratio=k, lr_factor=lr_factor, decoupled=decoupled)
    why = "keeps lr x wd / batch, the decay per sample" if decoupled else "coupled L2 is not scaled"
    source = "Wang & Aitchison 2024 (arXiv 2405.13698)"
    return [_row("weight_decay", base.weight_decay, value, why, source, "medium")]


def _adam_constants(base: Base, k: float) -> list[Resolved]:
    if optimizer_family(base.optimizer) not in ("adam", "lamb"):
        return []
    beta2 = second_moment(base.optimizer, base.beta2)
    rows = []
    if beta2 is not None:
        why = "beta2^k keeps the half-life of the second moment in samples; beta1 stays"
        if k > 32:
            why += "; k > 32 is far outside what was tested"
        source = "Marek et al. 2025 (arXiv 2507.07101)"
        rows.append(_row("beta2", beta2, scale_beta2(beta2, k), why, source, "medium"))
    if base.eps is not None and base.eps >= 1e-6:
        source = "Malladi et al. 2022 (arXiv 2205.10287) Def. 5.2"
        rows.append(_row("eps", base.eps, base.eps / math.sqrt(k), "eps / sqrt(k)", source, "medium"))
    return rows


def _clipping(base: Base, global_batch: int) -> list[Resolved]:
    if base.clip_norm is None:
        return []
    source = "McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.10"
    if base.noise_scale is None:
        why = "kept: the noise scale is not known; watch the share of clipped steps"
        return [_row("clip_norm", base.clip_norm, base.clip_norm, why, source, "medium")]
    value = scale_clip_norm(base.clip_norm, base.tuned_batch, global_batch, base.noise_scale)
    why = "clips the same share of steps at the new noise"
    return [_row("clip_norm", base.clip_norm, value, why, source, "medium")]


def _batch_norm(micro_batch: int) -> Resolved:
    small = micro_batch < 16
    why = (
        f"{micro_batch} samples are too few for BatchNorm statistics: use SyncBatchNorm"
        if small
        else f"{micro_batch} samples per device are enough: keep the statistics per device (ghost BatchNorm)"
    )
    value = "sync" if small else "per device"
    return _row("batch_norm", None, value, why, "Goyal et al. 2017 (arXiv 1706.02677) 2.3", "medium")


def _optimizer_switch(base: Base, global_batch: int, k: float) -> list[Resolved]:
    beyond = base.critical_batch is not None and global_batch > base.critical_batch
    family = optimizer_family(base.optimizer)
    to = {"sgd": "lars", "adam": "lamb"}.get(family)
    far = beyond or (family == "sgd" and global_batch > _SGD_LINEAR_LIMIT) or (family == "adam" and k > 32)
    if to is None or not far or base.finetune:
        return []
    why = f"{to.upper()} is an alternative so far out; well tuned {base.optimizer} often equals it"
    source = "You et al. (arXiv 1708.03888, 1904.00962); Nado et al. 2021 (arXiv 2102.06356)"
    return [_row("optimizer", base.optimizer, to, why, source, "low")]
