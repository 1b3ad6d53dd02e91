"""Warm-up: constant in samples, within 500 to 2000 steps, at most half of the run."""

from __future__ import annotations

import math
from typing import NamedTuple

from hemostat.errors import FieldError

LEAST_STEPS = 500
MOST_STEPS = 2000
SGD_EPOCHS = 5.0


class WarmUp(NamedTuple):
    """Steps of warm-up with the reason.

    Attributes:
        steps: updates below the peak rate.
        why: one sentence.
        source: where the rule comes from.
    """

    steps: int
    why: str
    source: str


def untuned_warmup_steps(beta2: float) -> int:
    """Steps of linear warm-up that Adam needs where nothing was tuned: 2 / (1 - beta2).

    Source: Ma & Yarats 2019 (arXiv 1910.04209) section 5.

    Examples:
        >>> [untuned_warmup_steps(beta2) for beta2 in (0.999, 0.98, 0.95)]
        [2000, 100, 40]
    """
    return math.ceil(2.0 / (1.0 - beta2) - 1e-6)


def convert_warmup(
    steps_before: int | None,
    *,
    batch_ratio: float,
    total_steps: int = 0,
    adam_beta2: float | None = None,
    epoch_steps: int | None = None,
    stretch: float = 1.0,
) -> WarmUp:
    """Warm-up in steps at another global batch.

    Same samples: steps / k. For a larger batch at least 500 steps, and for Adam 2 / (1 - beta2); at most
    2000 unless the same samples need more. SGD that had none gets 5 epochs within the same limits. The
    same batch keeps what it had. Half of the run is the hard limit.

    Args:
        steps_before: updates at the tuned batch; None or 0: none was used.
        batch_ratio: k, batch now over tuned batch.
        total_steps: length of the run now; 0: not known.
        adam_beta2: second-moment factor, for Adam-like optimizers only.
        epoch_steps: updates in an epoch now, where known; for SGD that had no warm-up.
        stretch: samples now over samples before, beyond the critical batch (LAMB and LARS).

    Raises:
        FieldError: the warm-up that worked on one device is more than half of this run.

    Source: same samples: OLMo 2 and MLPerf 405B practice, detectron2's auto-scaling; 5 epochs Goyal et al.
        2017 (arXiv 1706.02677) section 2.2; 2 / (1 - beta2) Ma & Yarats 2019 (arXiv 1910.04209).

    Examples:
        >>> convert_warmup(8000, batch_ratio=8.0).steps
        1000
        >>> convert_warmup(None, batch_ratio=8.0, epoch_steps=157).steps  # SGD, ImageNet at 8192
        785
        >>> convert_warmup(None, batch_ratio=1.0).steps
        0
    """
    had = steps_before or 0
    half = total_steps // 2 if total_steps else None
    same_samples = math.ceil(had / batch_ratio * stretch - 1e-9)
    source = "OLMo 2 and MLPerf Llama-3.1-405B keep it constant in samples"
    if batch_ratio <= 1.0:
        _check_half(had, same_samples, total_steps)
        why = "the same number of samples as on one device" if had else "none was used, and none is needed"
        return WarmUp(same_samples, why, source)
    wanted, why = same_samples, f"the same samples: {had} steps / {batch_ratio:.4g}"
    if not had and adam_beta2 is None and epoch_steps:
        wanted, why = math.ceil(SGD_EPOCHS * epoch_steps), "5 epochs, since none was used"
        source = "Goyal et al. 2017 (arXiv 1706.02677) section 2.2"
    least = LEAST_STEPS if adam_beta2 is None else max(LEAST_STEPS, untuned_warmup_steps(adam_beta2))
    if wanted < least:
        wanted, why = least, f"at least {least} steps for a larger batch"
        source = "Goyal et al. 2017 (arXiv 1706.02677) 2.2; Ma & Yarats 2019 (arXiv 1910.04209)"
    most = max(MOST_STEPS, same_samples)
    if wanted > most:
        wanted, why = most, f"at most {most} steps"
    if half is not None and wanted > half:
        wanted, why = half, f"{why}, cut to half of the run"
    return WarmUp(wanted, why, source)


def _check_half(had: int, steps: int, total_steps: int) -> None:
    if total_steps and steps > total_steps // 2:
        raise FieldError(
            "warmup_steps",
            had,
            f"is more than half of the run ({steps} of {total_steps} steps now)",
            "Shorten it, or train longer.",
        )
