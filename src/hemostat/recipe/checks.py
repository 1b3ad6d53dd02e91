"""What may go wrong with a converted recipe: refusals first, then the findings HR003 to HR012."""

from __future__ import annotations

from hemostat.errors import FieldError
from hemostat.findings import Finding, Severity
from hemostat.recipe.batch import Batch
from hemostat.recipe.critical import WARNING_SHARE, check_bill, samples_stretch
from hemostat.recipe.one_device import ANNEALED, Base
from hemostat.recipe.schedule import Schedule

FEW_STEPS = 1000
FEW_EVALS = 20


def refuse(base: Base, batch: Batch, critical_batch: float | None) -> None:
    """Raise where no honest number exists.

    Raises:
        FieldError: the batch is part of the objective and would change, or it lies too far beyond the
            critical batch.
    """
    moved = batch.global_batch != base.tuned_batch
    if moved and base.objective not in (None, "supervised"):
        raise FieldError(
            "objective",
            base.objective,
            "the batch is part of this objective, so its optimum moves with the batch and no rule holds",
            f"Keep global_batch={base.tuned_batch}, or tune again at {batch.global_batch}.",
        )
    check_bill(base.tuned_batch, batch.global_batch, critical_batch, base.accept_bill)


def find_batch_risks(base: Base, batch: Batch, critical_batch: float | None) -> list[Finding]:
    """Findings about the batch alone."""
    found = []
    total, n = batch.global_batch, base.num_train_samples
    if total > base.tuned_batch and n is not None and total * 10 > n:
        message = f"A batch of {total} is more than a tenth of the {n} training samples."
        found.append(_warn("HR006", message, f"Use at most global_batch={max(1, n // 10)}."))
    if critical_batch is not None and base.tuned_batch < total and total > WARNING_SHARE * critical_batch:
        stretch = samples_stretch(base.tuned_batch, total, critical_batch)
        message = (
            f"Batch {total} against a critical batch of {critical_batch:.0f}: the same quality needs "
            f"{stretch:.2f}x the samples."
        )
        fix = "Set accept_bill=true to train longer."
        if base.accept_bill:
            fix = "You accepted it: the length of the run, where it is known, includes it."
        found.append(_warn("HR007", message, fix))
    if base.objective not in (None, "supervised") and batch.num_ranks > 1:
        message = (
            f"objective={base.objective}: samples of one batch meet each other; ranks must exchange them."
        )
        found.append(_warn("HR008", message, "Gather the outputs over the ranks before the loss."))
    if not batch.even:
        message = f"{total} samples do not divide evenly by {batch.num_ranks} ranks x {batch.accumulation}."
        found.append(_note("HR012", message, "Nothing to do: every sample weighs the same."))
    return found


def find_run_risks(base: Base, schedule: Schedule, *, eval_every_steps: int, moved: bool) -> list[Finding]:
    """Findings about the length of the run."""
    found = []
    total = schedule.total_steps
    if total and schedule.warmup_steps * 10 > total:
        share = 100 * schedule.warmup_steps / total
        message = f"Warm-up takes {schedule.warmup_steps} of {total} steps ({share:.0f} %); a tenth is usual."
        fix = f"Train longer, keep the batch, or set warmup_steps={total // 10} and watch the first steps."
        found.append(_warn("HR003", message, fix))
    if moved and total and total < FEW_STEPS:
        message = (
            f"{total} steps are few for a scaled rate; the rules were tested on runs of over {FEW_STEPS}."
        )
        found.append(_warn("HR004", message, f"Keep global_batch={base.tuned_batch}, or train longer."))
    evals = total // eval_every_steps if eval_every_steps else 0
    if base.patience is not None and total and evals < FEW_EVALS:
        message = f"The run has {evals} evaluations; patience cannot tell a plateau from noise."
        samples = max(1, total // FEW_EVALS)
        found.append(_warn("HR005", message, f"Evaluate every {samples} steps."))
    if base.patience is not None and base.schedule in ANNEALED and total:
        message = (
            f"{base.schedule} gains most at its end, so patience cannot stop the run before step {total}."
        )
        found.append(_note("HR011", message, "Use schedule=constant or step to stop early."))
    late = sum(mark >= total for mark in schedule.milestones_steps)
    if total and late > 0:
        found.append(_warn("HR010", f"{late} milestone(s) lie beyond the end of the run.", "Drop them."))
    return found


def find_far_lr(rule: str, batch_ratio: float, forced: bool) -> Finding:
    """Finding HR009: no single number is honest so far from where the rate was tuned."""
    if forced:
        return _warn(
            "HR009",
            f"k = {batch_ratio:.4g}: you forced the {rule} rule, further out than any rule is sure.",
            "Try half and twice the rate too, or keep the batch.",
        )
    return _warn(
        "HR009",
        f"k = {batch_ratio:.4g} is too far for one number by the {rule} rule.",
        "Run the sweep for a tenth of the run each, or keep the batch.",
    )


def _warn(code: str, message: str, fix: str) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, message=message, fix=fix)


def _note(code: str, message: str, fix: str) -> Finding:
    return Finding(code=code, severity=Severity.INFO, message=message, fix=fix)
