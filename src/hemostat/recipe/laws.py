"""Absolute laws from the literature: a sanity band around a rate or a batch, never the answer."""

from __future__ import annotations

import math

from hemostat.findings import Finding, Severity
from hemostat.recipe.length import run_samples
from hemostat.recipe.one_device import Base

# Against 35 published recipes the laws are off by 2x to 4x in the median, so the band is wide.
_BAND = 8.0


def deepseek(compute_flop: float) -> tuple[float, float]:
    """Learning rate and batch (tokens) from compute.

    Source: DeepSeek LLM 2024 (arXiv 2401.02954) section 3.1.

    Examples:
        >>> lr, batch_tokens = deepseek(1e20)
        >>> round(lr, 6), round(batch_tokens, -4)
        (0.000986, 1020000.0)
    """
    return 0.3118 * compute_flop**-0.125, 0.2920 * compute_flop**0.3271


def step_law(num_params: float, num_tokens: float) -> tuple[float, float]:
    """Learning rate and batch (tokens) from parameters and tokens.

    Source: Step Law 2025 (arXiv 2503.04715) eq. 1.

    Examples:
        >>> lr, batch_tokens = step_law(1e9, 1e11)
        >>> round(lr, 6), round(batch_tokens, -3)
        (0.001632, 1108000.0)
    """
    return 1.79 * num_params**-0.713 * num_tokens**0.307, 0.58 * num_tokens**0.571


def minicpm_batch_tokens(loss: float) -> float:
    """Batch in tokens from the loss that the run reaches.

    Source: MiniCPM 2024 (arXiv 2404.06395) section 3.

    Examples:
        >>> round(minicpm_batch_tokens(2.5), -3)
        3978000.0
    """
    return float(1.21e9 / loss**6.24)


def zhang_critical_sequences(num_million_tokens: float) -> float:
    """Critical batch (20 % more steps) in sequences of 512 tokens, from millions of training tokens.

    Source: Zhang et al. 2024 (arXiv 2410.21676), B* = 22.91 D^0.47.

    Examples:
        >>> round(zhang_critical_sequences(3000), 1)
        986.9
    """
    return float(22.91 * num_million_tokens**0.47)


def bergsma_best_sequences(num_tokens: float) -> float:
    """Best batch in sequences of 2048 tokens.

    Source: Bergsma et al. 2025 (arXiv 2505.13738), B = 0.0306 D^0.383; the coefficient was not re-checked.

    Examples:
        >>> round(bergsma_best_sequences(2.2e9), 1)
        115.8
    """
    return float(0.0306 * num_tokens**0.383)


def bergsma_timescale(tokens_per_param: float) -> float:
    """Best AdamW time scale B / (lr wd D), as a share of the run.

    Source: Bergsma et al. 2025 (arXiv 2505.13738), 1.084 (D/N)^-0.527; the figures were not re-checked.

    Examples:
        >>> round(bergsma_timescale(20), 4)
        0.2236
    """
    return float(1.084 * tokens_per_param**-0.527)


def surge_factor(global_batch: float, noise_scale: float) -> float:
    """Best Adam rate at a batch over its maximum, which lies at the noise scale and falls beyond it.

    The recipe caps instead of falling: most public families saturate.

    Source: Li et al. 2024 (arXiv 2405.14578), the surge law.

    Examples:
        >>> surge_factor(4, 1)
        0.8
    """
    return 2.0 / (math.sqrt(noise_scale / global_batch) + math.sqrt(global_batch / noise_scale))


def find_odd_lr(base: Base) -> list[Finding]:
    """Finding HR013 where the one-device rate lies far from both laws of a language model.

    Needs num_params, sample_tokens above 1 and the length of the run; empty otherwise.

    Examples:
        >>> base = Base(lr=0.5, num_params=10**9, sample_tokens=2048, total_samples=10**7)
        >>> [finding.code for finding in find_odd_lr(base)]
        ['HR013']
    """
    num_tokens = run_samples(base) * base.sample_tokens
    if base.num_params is None or base.sample_tokens == 1 or not num_tokens or base.finetune:
        return []
    rates = [deepseek(6.0 * base.num_params * num_tokens)[0], step_law(base.num_params, num_tokens)[0]]
    low, high = min(rates) / _BAND, max(rates) * _BAND
    if low <= base.lr <= high:
        return []
    message = f"lr={base.lr:.3g} lies outside {low:.2g} to {high:.2g}, a wide band around two published laws."
    fix = "Check the unit of lr and tuned_batch; the laws are only a sanity band."
    return [Finding(code="HR013", severity=Severity.WARNING, message=message, fix=fix)]
