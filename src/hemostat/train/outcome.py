"""`Outcome`: how a run ended, as it stands under "summary" in run.json."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hemostat.train.session import Session


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
        train_s: from the first step to the end, evaluations included.
        wait_share: share of that time in which rank 0 waited for data.
        waited: the same as a verdict.
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
    train_s: float = 0.0
    wait_share: float = 0.0
    waited: str = ""
    critical_batch: float | None = None
    usd: float | None = None


def conclude(session: Session, error: BaseException | None) -> None:
    """Fill in what is known at the end of a session.

    Args:
        session: whose `outcome` is completed.
        error: what ended it, if anything did.
    """
    outcome, last, waits = session.outcome, session.last, session.loader.waits
    train_s = time.perf_counter() - session.started_s if last else 0.0
    ended_early = last is None or last.samples < session.recipe.total_samples
    outcome.reason = session.stop_reason or (
        "the run reached its end" if not ended_early else "the loop was left"
    )
    if error is not None:
        outcome.reason = str(error) or type(error).__name__
    outcome.steps, outcome.samples = (last.number, last.samples) if last else (0, 0)
    outcome.skipped_steps = session.skipped_steps
    outcome.train_s = train_s
    outcome.wait_share, outcome.waited = waits.share(train_s), waits.verdict(train_s)
    outcome.critical_batch = session.noise.critical_batch
    if session.usd_per_hour is not None:
        outcome.usd = session.usd_per_hour * train_s / 3600
