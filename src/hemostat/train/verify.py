"""What the jobs of a verification saw, and what breaks equality: plain numbers in, findings out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hemostat.findings import Finding, Severity
from hemostat.train.traces import Job, Sketches, StepTrace, Trace, read_job

TOLERANCE = {"float64": 1e-6, "float32": 1e-3}
ROUNDING = 1e-12
EXACT = 1e-8  # beyond, something inside computes in float32
COLUMNS = ("data", "loss", "gradient", "lr", "weights", "metrics", "resumed")


class Verdict(NamedTuple):
    """What a verification comes to.

    Attributes:
        table: number of processes -> column -> largest relative difference; NaN where nothing was compared.
        findings: what breaks equality, worst first.
    """

    table: dict[int, dict[str, float]]
    findings: list[Finding]


class _Compared(NamedTuple):
    differences: dict[str, float]
    finding: Finding | None


def judge(jobs: Mapping[int, Job], dtype: str = "float64") -> Verdict:
    """Compare all jobs with that of one process.

    Args:
        jobs: by number of processes, 1 among them.
        dtype: what the models computed in.
    """
    tolerance = TOLERANCE[dtype]
    reference = jobs[1]
    findings = _about_randomness(jobs)
    random_forward = _forward_is_random(reference, tolerance)
    if random_forward:
        findings.append(random_forward)
    findings += _about_batch_norm(jobs, tolerance)
    table: dict[int, dict[str, float]] = {}
    for num_ranks, job in jobs.items():
        columns = dict.fromkeys(COLUMNS, math.nan)
        for name in ("plain", "accumulated"):
            if num_ranks == 1 and name == "plain":
                continue
            where = f"{num_ranks} process{'es' * (num_ranks > 1)}, accumulation {1 + (name == 'accumulated')}"
            same = job.samples_seen[:1] == reference.samples_seen[:1] and bool(job.samples_seen)
            found = _compare(
                reference.traces["plain"],
                job.traces[name],
                where,
                tolerance,
                random_forward is not None,
                same,
            )
            columns = {key: _worst(columns[key], found.differences.get(key, math.nan)) for key in COLUMNS}
            findings += [found.finding] if found.finding else []
        if not reference.random_data and not _has_drifted(job):  # else it cannot be, and the reason is told
            columns["resumed"], resumed = _about_resume(job, num_ranks)
            findings += [resumed] if resumed else []
        table[num_ranks] = columns
    findings += _about_precision(table, tolerance)
    return Verdict(table, _once(findings))


def _worst(before: float, now: float) -> float:
    return now if math.isnan(before) else before if math.isnan(now) else max(before, now)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """One finding per code, the first, which is that of the fewest processes; worst first."""
    kept: dict[str, Finding] = {}
    for finding in findings:
        kept.setdefault(finding.code, finding)
    return sorted(kept.values(), key=lambda finding: (-finding.severity, finding.code))


def _about_randomness(jobs: Mapping[int, Job]) -> list[Finding]:
    found = []
    dropouts = jobs[1].dropouts
    if dropouts:
        message = f"dropout is random on each rank; compared with it off in {_few(dropouts)}."
        found.append(Finding(code="HV003", severity=Severity.INFO, message=message))
    told = next((job.random_data for job in jobs.values() if job.random_data), "")
    if told:
        message = "two reads of a sample differ: its augmentation follows the process, not the sample."
        fix = "Draw from hemostat.data.sample_rng(index); a stream seeds itself in set_epoch."
        found.append(Finding(code="HV004", severity=Severity.ERROR, message=message, fix=fix))
    return found


def _forward_is_random(reference: Job, tolerance: float) -> Finding | None:
    shifted = reference.traces.get("shifted")
    plain = reference.traces["plain"]
    if shifted is None or not plain.steps or not shifted.steps:
        return None
    first, other = plain.steps[0], shifted.steps[0]
    if first.rows != other.rows or _apart(first.loss_sum, other.loss_sum) <= tolerance:
        return None
    return Finding(
        code="HV011",
        severity=Severity.WARNING,
        message="the forward pass draws random numbers that no dropout module explains, so losses and gradients "
        "cannot be compared; the order of the data was.",
        fix="Set what draws them to 0 for the verification (--set NAME=0), or draw from the sample.",
    )


def _about_batch_norm(jobs: Mapping[int, Job], tolerance: float) -> list[Finding]:
    reference = jobs[1].traces.get("normed")
    if reference is None:
        return []
    worst = math.nan
    for job in jobs.values():
        for name in ("normed", "normed_accumulated"):
            other = job.traces.get(name)
            if other is not None and other.steps and reference.steps:
                worst = _worst(worst, _distance(reference.steps[0].gradients, other.steps[0].gradients))
    if not worst > tolerance:
        return []
    message = (
        f"BatchNorm normalises each share by itself ({_few(jobs[1].batch_norms)}): the first gradient moves by "
        f"{worst:.1e}. All else was compared with its statistics fixed."
    )
    fix = "Use GroupNorm or LayerNorm, or keep the micro-batch of one device and accept it."
    return [
        Finding(
            code="HV002", severity=Severity.WARNING, message=message, fix=fix, evidence={"gradient": worst}
        )
    ]


def _compare(
    reference: Trace, other: Trace, where: str, tolerance: float, rows_only: bool, same_samples: bool
) -> _Compared:
    """Differences of a run from the reference, up to the first step that differs, and what to call it."""
    seen: dict[str, float] = {}
    for number, (first, second) in enumerate(zip(reference.steps, other.steps, strict=False), start=1):
        at = f"{where}, step {number}"
        rows_differ = first.rows != second.rows
        if rows_differ and not same_samples:
            return _Compared({**seen, "data": math.inf}, _other_data(first, second, at))
        seen["data"] = 0.0
        if rows_only:
            continue
        now = {
            "loss": max(_apart(first.loss_sum, second.loss_sum), _apart(first.count, second.count)),
            "gradient": _distance(first.gradients, second.gradients),
            "lr": max(map(_apart, first.rates, second.rates), default=0.0),
            "weights": _distance(first.weights, second.weights),
        }
        seen |= {key: _worst(seen.get(key, math.nan), value) for key, value in now.items()}
        wrong = next(
            (key for key in ("loss", "gradient", "lr", "weights") if not now[key] <= tolerance), None
        )
        if wrong is not None:
            return _Compared(seen, _named(wrong, first, second, at, now[wrong]))
        if len(set(second.digests)) > 1:
            return _Compared(seen | {"weights": math.inf}, _drifted(at))
    if len(reference.steps) != len(other.steps):
        return _Compared(seen | {"data": math.inf}, _other_length(reference, other, where))
    if rows_only:
        return _Compared(seen, None)
    return _metrics(reference, other, where, tolerance, seen)


def _metrics(
    reference: Trace, other: Trace, where: str, tolerance: float, seen: dict[str, float]
) -> _Compared:
    apart = {
        name: _apart(value, other.metrics.get(name, math.nan)) for name, value in reference.metrics.items()
    }
    if not apart:
        return _Compared(seen, None)
    name = max(apart, key=lambda key: math.inf if math.isnan(apart[key]) else apart[key])
    seen = {**seen, "metrics": apart[name]}
    if apart[name] <= tolerance:
        return _Compared(seen, None)
    message = f"{name} depends on how the rows are cut: {reference.metrics[name]:.6g} on one process, "
    message += f"{other.metrics.get(name, math.nan):.6g} here, with equal weights."
    fix = "Return (sum, count) from metrics(), not a mean with count 1."
    return _Compared(seen, _error("HV009", message, fix, where))


def _other_data(first: StepTrace, second: StepTrace, at: str) -> Finding:
    lost, extra = len(set(first.rows) - set(second.rows)), len(set(second.rows) - set(first.rows))
    if not lost and not extra:
        message = "the same samples come in another order, or another number of times."
    else:
        message = f"{lost} of {len(first.rows)} samples of the step are not those of one process."
    fix = (
        "Leave out what splits or shuffles the data by rank: hemostat gives each rank its share of one order."
    )
    return _error("HV005", message, fix, at)


def _other_length(reference: Trace, other: Trace, where: str) -> Finding:
    message = f"{len(other.steps)} steps were taken, and {len(reference.steps)} on one process."
    return _error("HV005", message, "Let the loop end when session.steps() does, on all ranks.", where)


def _named(what: str, first: StepTrace, second: StepTrace, at: str, apart: float) -> Finding:
    if what == "loss":
        return _about_loss(first, second, at)
    if what == "gradient":
        name = max(
            second.gradients,
            key=lambda key: _one_distance(first.gradients, second.gradients, key),
            default="",
        )
        message = f"the losses are equal and the gradients differ by {apart:.1e}, most in {name or 'all'}."
        fix = "Compute the whole loss with session.model (the model that the trainer hands over), no part beside it."
        return _error("HV007", message, fix, at)
    if what == "lr":
        message = f"the learning rate is {second.rates}, and {first.rates} on one process."
        return _error("HV008", message, "Leave the rate to the recipe; nothing else may set it.", at)
    message = f"the gradients are equal, and the optimizer makes other weights of them ({apart:.1e})."
    return _error("HV006", message, "Let its update depend on the gradient and its state only.", at)


def _about_loss(first: StepTrace, second: StepTrace, at: str) -> Finding:
    if _apart(first.count, second.count) > EXACT:
        message = f"the counts of one batch add up to {second.count:g}, and to {first.count:g} in one piece."
        return _error("HV001", message, "Return the number of terms in the sum as the count.", at)
    ratio = second.loss_sum / first.loss_sum if first.loss_sum else math.nan
    pieces = second.pieces / first.pieces
    if pieces > 1 and abs(ratio / pieces - 1) < 0.25:
        message = (
            f"the loss returns a mean where a sum belongs: {second.pieces} pieces make it {ratio:.3g}-fold."
        )
        return _error("HV001", message, "Return (sum, count), as with reduction='sum'.", at)
    message = (
        f"the loss depends on how the batch is cut (times {ratio:.4g} in {second.pieces} pieces): a mean of means, or "
        "samples that meet each other in it."
    )
    return _error("HV001", message, "Return the sum of all terms and their exact number as (sum, count).", at)


def _drifted(at: str) -> Finding:
    message = "the ranks hold different weights after equal gradients: the update depends on the rank."
    return _error("HV006", message, "Seed what the optimizer draws alike on all ranks.", at)


def _has_drifted(job: Job) -> bool:
    return any(len(set(step.digests)) > 1 for step in job.traces["real"].steps)


def _about_resume(job: Job, num_ranks: int) -> tuple[float, Finding | None]:
    """(0 if the resumed run is bit for bit the undisturbed one, what was lost)."""
    whole, cut, resumed = (job.traces.get(name, Trace()).steps for name in ("real", "cut", "resumed"))
    joined = [*cut, *resumed]
    for number, (first, second) in enumerate(zip(whole, joined, strict=False), start=1):
        parts = {
            "the order of the data": (first.rows, second.rows),
            "the model's buffers or the random numbers": (first.loss_sum, second.loss_sum),
            "something behind the gradient": (first.gradient_digest, second.gradient_digest),
            "the learning rate": (first.rates, second.rates),
            "state that the optimizer keeps outside of its state_dict": (first.digests, second.digests),
        }
        if _distance(first.gradients, second.gradients) < ROUNDING < _distance(first.weights, second.weights):
            del parts["something behind the gradient"]  # its last bits are not what moves the weights
        lost = next((what for what, (one, other) in parts.items() if one != other), None)
        if lost is not None:
            where = f"{num_ranks} process{'es' * (num_ranks > 1)}, step {number}"
            message = f"a run that was saved and resumed is another one: {lost} was not restored."
            fix = "Keep it in the state_dict of the model or the optimizer."
            return math.inf, _error("HV010", message, fix, where)
    if len(whole) != len(joined):
        message = f"a resumed run has {len(joined)} steps, an undisturbed one {len(whole)}."
        return math.inf, _error("HV010", message, "Let the loop end when session.steps() does.", "")
    return 0.0, None


def _about_precision(table: Mapping[int, Mapping[str, float]], tolerance: float) -> list[Finding]:
    values = [value for row in table.values() for value in row.values() if math.isfinite(value)]
    worst = max(values, default=0.0)
    if tolerance == TOLERANCE["float64"] and EXACT < worst <= tolerance:
        message = f"equal to {worst:.1e} only: something in the task computes in float32."
        return [Finding(code="HV012", severity=Severity.INFO, message=message)]
    return []


def _error(code: str, message: str, fix: str, where: str) -> Finding:
    return Finding(code=code, severity=Severity.ERROR, message=message, fix=fix, where=where)


def _apart(first: float, second: float) -> float:
    """Relative difference; 0 for equal ones, NaN for two that are no numbers.

    Examples:
        >>> _apart(2.0, 1.0), _apart(0.0, 0.0)
        (0.5, 0.0)
    """
    if first == second or (math.isnan(first) and math.isnan(second)):
        return 0.0
    return abs(first - second) / max(abs(first), abs(second))


def _distance(first: Sketches, second: Sketches) -> float:
    """Estimated norm of the difference of two sets of tensors, over that of the first."""
    names = {*first, *second}
    square = sum(_one_distance(first, second, name) ** 2 for name in names)
    norm = math.sqrt(sum(values[0] ** 2 for values in first.values()))
    if square == 0.0:
        return 0.0
    return math.sqrt(square) / norm if norm else math.inf


def _one_distance(first: Sketches, second: Sketches, name: str) -> float:
    nothing = [0.0] * 5
    one, other = first.get(name, nothing)[1:], second.get(name, nothing)[1:]
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) / len(one))


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def judge_jobs(
    runs: Mapping[int, Path], dtype: str
) -> tuple[dict[int, dict[str, float]], list[Finding], dict[str, Any]]:
    """Judge what finished jobs left.

    Args:
        runs: run directory of each job, by its number of processes.
        dtype: what the models computed in.

    Returns:
        Table and findings of `judge`, and what was compared: samples, of_samples, steps, batch, dtype.
    """
    jobs = {num: read_job(path) for num, path in runs.items()}
    first = jobs[1]
    about = {
        "samples": first.samples,
        "of_samples": first.of_samples,
        "steps": len(first.traces["plain"].steps),
        "batch": first.batch,
        "dtype": dtype,
    }
    return *judge(jobs, dtype), about
