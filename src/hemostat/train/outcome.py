"""`Outcome`: how a run ended, as it stands under "summary" in run.json."""

from __future__ import annotations

import msgspec


class Outcome(msgspec.Struct, kw_only=True):
    """How a run ended.

    Attributes:
        reason: why it ended, one sentence.
        steps: optimizer steps, skipped ones included.
        skipped_steps: steps whose loss or gradient was not finite, or that had nothing to learn.
        samples: consumed by all ranks.
        monitor: name of the metric that was followed.
        best: its best value; None without an evaluation.
        best_step: where that was.
        final: metrics of the last evaluation.
        num_evaluations: how often the model was judged.
        train_s: from the first step to the end, evaluations included.
        wait_share: share of that time in which rank 0 waited for data.
        waited: the same as a verdict.
        longest_wait_s: for one fetch.
        critical_batch: gradient noise scale in samples, where it could be measured.
        usd: money spent in `train_s`; None without a price.
    """

    reason: str = ""
    steps: int = 0
    skipped_steps: int = 0
    samples: int = 0
    monitor: str = ""
    best: float | None = None
    best_step: int = 0
    final: dict[str, float] = {}
    num_evaluations: int = 0
    train_s: float = 0.0
    wait_share: float = 0.0
    waited: str = ""
    longest_wait_s: float = 0.0
    critical_batch: float | None = None
    usd: float | None = None
