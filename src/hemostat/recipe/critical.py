"""Critical batch: fit it from runs at several batches, and state the bill in samples beyond it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.recipe.field_checks import check_int, check_number
from hemostat.units import parse_count

# Grid of candidates: a factor of 64 around the tried batches, steps of 1 %.
_GRID_SPAN = 64.0
_GRID_STEP = 1.01
REFUSAL_FACTOR = 4.0
WARNING_SHARE = 0.25


class BatchRun(Config, frozen=True, kw_only=True):
    """One run of the user's: how many samples it took to the same target at this batch.

    Attributes:
        batch: global batch, in samples.
        samples: samples (or epochs: one unit in all runs) to the target.
    """

    batch: int
    samples: float

    def __post_init__(self) -> None:
        """Both lie above 0."""
        check_int("runs.batch", self.batch, minimum=1)
        check_number("runs.samples", self.samples, above=0.0, fix="Write the samples that the run took.")

    @staticmethod
    def parse(text: str) -> tuple[BatchRun, ...]:
        """Read "batch:samples" pairs, separated by blanks or commas.

        Raises:
            FieldError: a pair without a colon, or a number that is not a count.

        Examples:
            >>> BatchRun.parse("128:1.2M 256:1.3M")[1]
            BatchRun(batch=256, samples=1300000)
            >>> BatchRun.parse("128:12.4 256:13.1")[0].samples  # epochs
            12.4
        """
        runs = []
        for pair in text.replace(",", " ").split():
            batch, colon, samples = pair.partition(":")
            if not colon:
                raise FieldError("runs", pair, "is not batch:samples", 'Write it like "128:1.2M 256:1.3M".')
            runs.append(BatchRun(batch=parse_count(batch, "runs"), samples=_quantity(samples)))
        return tuple(runs)


def _quantity(text: str) -> float:
    """A plain number as it is, since epochs have fractions; with a suffix a count of samples."""
    try:
        number = float(text)
    except ValueError:
        return parse_count(text, "runs")
    return int(number) if number.is_integer() else number


class CriticalBatch(Config, frozen=True, kw_only=True):
    """The fitted law E(B) = min_samples * (1 + B / critical_batch).

    Attributes:
        critical_batch: batch at which the samples to the target double; inf where no run shows a rise.
        min_samples: samples to the target at a very small batch.
        rms_log_error: root mean square of ln(fitted / measured), about the relative error.
        low, high: range of critical batches that fit nearly as well (0 and inf: the runs do not bound it).
        num_runs: distinct batches in the fit.
    """

    critical_batch: float
    min_samples: float
    rms_log_error: float
    low: float
    high: float
    num_runs: int

    def samples(self, batch: float) -> float:
        """Samples to the target at a batch."""
        return self.min_samples * (1.0 + batch / self.critical_batch)

    def steps(self, batch: float) -> float:
        """Updates to the target at a batch; at the critical batch twice the least possible."""
        return self.samples(batch) / batch


def samples_stretch(batch_before: float, batch_after: float, critical_batch: float | None) -> float:
    """Samples needed at one batch over samples needed at another, for the same target.

    Source: McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11: (S/Smin - 1)(E/Emin - 1) = 1, so that
        E(B) = Emin (1 + B / Bc).

    Examples:
        >>> round(samples_stretch(16, 128, 86), 4)
        2.098
        >>> samples_stretch(16, 128, None)
        1.0
    """
    if critical_batch is None or math.isinf(critical_batch):
        return 1.0
    return (1.0 + batch_after / critical_batch) / (1.0 + batch_before / critical_batch)


def fit_critical_batch(runs: Sequence[BatchRun]) -> CriticalBatch:
    """Fit samples-to-target against batch; the fastest run of each batch counts.

    For every candidate Bc on a log grid the best E0 in log space is the mean residual; the pair with
    the least squared log error wins.

    Args:
        runs: runs to the same target, at three or more distinct batches.

    Raises:
        FieldError: fewer than three distinct batches.

    Source: the law is McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11; that it holds to 1-11 % on
        public runs was measured on the MLPerf reference convergence points (bench/recipe.py).

    Examples:
        >>> fit = fit_critical_batch([BatchRun(batch=b, samples=1000 * (512 + b)) for b in (64, 256, 1024)])
        >>> round(fit.critical_batch, -1), round(fit.samples(512) / fit.min_samples, 2)
        (510.0, 2.0)
    """
    best: dict[int, float] = {}
    for run in runs:
        best[run.batch] = min(run.samples, best.get(run.batch, run.samples))
    if len(best) < 3:
        raise FieldError(
            "runs",
            " ".join(f"{batch}:{samples:g}" for batch, samples in sorted(best.items())),
            "a critical batch needs runs at three or more distinct batches",
            'Add runs, like "128:1.2M 256:1.3M 512:1.6M".',
        )
    points = sorted(best.items())
    candidates = [points[0][0] / _GRID_SPAN]
    while candidates[-1] < points[-1][0] * _GRID_SPAN:
        candidates.append(candidates[-1] * _GRID_STEP)
    scored = [(_log_error(points, candidate), candidate) for candidate in candidates]
    error, critical = min(scored)
    # A critical batch fits "nearly as well" while it adds less than one standard error of the fit; with
    # p = 2 parameters that is a factor 1 + 1/(n - 2) on the squared error, floored at 2 % of noise.
    limit = math.sqrt(max(error, 0.02) ** 2 * (1.0 + 1.0 / (len(points) - 2)))
    near = [candidate for score, candidate in scored if score <= limit]
    if critical >= candidates[-1]:
        critical = math.inf
    return CriticalBatch(
        critical_batch=critical,
        min_samples=_min_samples(points, critical),
        rms_log_error=error,
        low=0.0 if near[0] <= candidates[0] else near[0],
        high=math.inf if near[-1] >= candidates[-1] else near[-1],
        num_runs=len(points),
    )


def _min_samples(points: list[tuple[int, float]], critical: float) -> float:
    logs = [math.log(samples / (1.0 + batch / critical)) for batch, samples in points]
    return math.exp(math.fsum(logs) / len(logs))


def _log_error(points: list[tuple[int, float]], critical: float) -> float:
    logs = [math.log(samples / (1.0 + batch / critical)) for batch, samples in points]
    mean = math.fsum(logs) / len(logs)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in logs) / len(logs))


def check_bill(batch_before: int, batch_after: int, critical_batch: float | None, accepted: bool) -> None:
    """Refuse a batch far beyond the critical one, and ask for a yes between once and four times it.

    A batch that is not larger than before is never refused: it costs nothing new.

    Raises:
        FieldError: more than four times the critical batch, or beyond it without the yes.

    Source: McCandlish et al. 2018 (arXiv 1812.06162) eq. 2.11: at 4 Bc the steps are within 1.25x of the
        least possible, for 5 times the least samples.
    """
    if critical_batch is None or batch_after <= batch_before or batch_after <= critical_batch:
        return
    stretch = samples_stretch(batch_before, batch_after, critical_batch)
    if batch_after > REFUSAL_FACTOR * critical_batch:
        raise FieldError(
            "global_batch",
            batch_after,
            f"is more than 4 times the critical batch {critical_batch:.0f}: {stretch:.2g}x the samples "
            "for at most 1.25x more speed",
            f"Use at most {REFUSAL_FACTOR * critical_batch:.0f}, better {critical_batch:.0f}.",
        )
    if not accepted:
        raise FieldError(
            "global_batch",
            batch_after,
            f"lies beyond the critical batch {critical_batch:.0f}: the same quality needs "
            f"{stretch:.2f}x the samples",
            f"Set accept_bill=true to pay them, or use at most {critical_batch:.0f}.",
        )
