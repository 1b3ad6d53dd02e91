"""`Outcome`: how a run ended, as it stands under "summary" in run.json."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import torch

from hemostat.data import TrainLoader
from hemostat.findings import Finding

if TYPE_CHECKING:
    from hemostat.train.session import Session

Status = Literal["ended", "stopped", "paused", "left", "failed"]


class Bill(Protocol):
    """What a run has spent so far."""

    best_s: float | None

    def total_s(self) -> float:
        """Seconds, start-up included."""

    def parts(self) -> dict[str, float]:
        """The same by what they went into."""


class Outcome(msgspec.Struct, kw_only=True):
    """How a run ended.

    Attributes:
        reason: why it ended, one sentence.
        status: "ended" at its full length, "stopped" early with its weights as they were asked for (early stopping,
            control.json, a signal), "paused" by control.json to be resumed, "left" by its loop, or "failed" with an
            exception.
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
        median_wait_s: for one fetch.
        p99_wait_s: what 99 of 100 fetches did not exceed.
        longest_wait_s: for one fetch.
        eval_wait_s: how long rank 0 waited for data in evaluations; no part of `wait_share`.
        eval_waited: the same as a sentence where it was a loss, else "".
        feed_hint: the one thing to try next where the run was input-bound, else "".
        critical_batch: gradient noise scale in samples, where it could be measured.
        spent_s: seconds of all attempts, start-up included.
        spent: the same by what they went into: training, evaluation, checkpoints, waiting for data, start, and
            steps that were lost and taken again.
        after_best_s: what was spent after the best point; None without one.
        usd: money spent in `spent_s`; None without a price.
        usd_after_best: the same for `after_best_s`.
        peak_reserved_bytes: most that the allocator of rank 0's accelerator held; None on a CPU.
        ended: when, in seconds since 1970.
        findings: what the guards found on the way.
    """

    reason: str = ""
    status: Status = "ended"
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
    median_wait_s: float = 0.0
    p99_wait_s: float = 0.0
    longest_wait_s: float = 0.0
    eval_wait_s: float = 0.0
    eval_waited: str = ""
    feed_hint: str = ""
    critical_batch: float | None = None
    spent_s: float = 0.0
    spent: dict[str, float] = {}
    after_best_s: float | None = None
    usd: float | None = None
    usd_after_best: float | None = None
    peak_reserved_bytes: int | None = None
    ended: float = 0.0
    findings: list[Finding] = []

    def conclude(self, session: Session, error: BaseException | None) -> None:
        """Fill in what is known at the end of a session.

        Args:
            session: after its last step.
            error: what ended it, if anything did.
        """
        last = session.last
        self.steps, self.samples = (last.number, last.samples) if last else (0, 0)
        ended = self.samples >= session.recipe.total_samples
        self.reason = session.stop_reason or ("the run reached its end" if ended else "the loop was left")
        stopped: Status = "paused" if session.stop and session.stop.paused else "stopped"
        self.status = stopped if session.stop else "ended" if ended else "left"
        if error is not None:
            self.reason = str(error) or type(error).__name__
            self.status = stopped if session.stop else "failed"
        self.skipped_steps = session.skipped_steps
        self.train_s = session.spending.trained_s()
        self.count_waits(session.loader)
        self.eval_wait_s = session.eval_feeds.wait_s
        self.eval_waited = session.eval_feeds.verdict(self.train_s)
        self.critical_batch = session.noise.critical_batch
        if session.world.device.type == "cuda":
            self.peak_reserved_bytes = torch.cuda.max_memory_reserved(session.world.device)
        self.count_costs(session.spending, session.usd_per_hour)

    def count_costs(self, spending: Bill, usd_per_hour: float | None) -> None:
        """Take over what was spent, on what, and how much of it after the best point."""
        self.ended = time.time()
        self.spent_s, self.spent = spending.total_s(), spending.parts()
        if spending.best_s is not None:
            self.after_best_s = max(0.0, self.spent_s - spending.best_s)
        if usd_per_hour is not None:
            self.usd = usd_per_hour * self.spent_s / 3600
            if self.after_best_s is not None:
                self.usd_after_best = usd_per_hour * self.after_best_s / 3600

    def count_waits(self, loader: TrainLoader) -> None:
        """Take over how long this rank waited for data, and what to do about it; `train_s` must be known."""
        waits = loader.waits
        self.wait_share = waits.share(self.train_s)
        self.waited = waits.verdict(self.train_s)
        self.median_wait_s, self.p99_wait_s = waits.quantile_s(0.5), waits.quantile_s(0.99)
        self.longest_wait_s = waits.max_wait_s
        self.feed_hint = loader.hint(self.train_s)
