"""Absolute laws from the literature: a sanity band around a rate, never the answer."""

from __future__ import annotations

from hemostat.findings import Finding, Severity
from hemostat.recipe.one_device import Base
from hemostat.recipe.run_length import run_samples

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
