"""The recipe as lines of text: at most 12 by default, everything with its reason and source on demand."""

from __future__ import annotations

import textwrap
from typing import Any

from hemostat.config import Resolved
from hemostat.findings import Severity
from hemostat.recipe import Recipe
from hemostat.units import format_number

MAX_LINES = 12
# field -> label, most important first
_LABELS = {
    "lr": "learning rate",
    "warmup_steps": "warm-up steps",
    "patience_evals": "patience",
    "total_steps": "steps",
    "plateau_patience": "plateau patience",
    "milestones": "milestones",
    "eta_min": "eta_min",
    "eval_every_steps": "steps per evaluation",
    "checkpoint_every_steps": "steps per checkpoint",
    "min_delta": "min delta",
    "weight_decay": "weight decay",
    "beta2": "beta2",
    "eps": "eps",
    "ema": "ema",
    "clip_norm": "clip norm",
    "precision": "precision",
}
_NEW = ("precision", "plateau_patience")  # printed though nothing stood there before


def recipe_lines(recipe: Recipe, why: bool = False) -> list[str]:
    """The recipe as text.

    Args:
        recipe: what to print.
        why: every row with reason, source and confidence, and all advice and findings.

    Returns:
        At most 12 lines without `why`.
    """
    head = (
        f"{recipe.optimizer}, tuned at batch {recipe.base.tuned_batch} on one device -> "
        f"{recipe.num_ranks} rank{'s' * (recipe.num_ranks != 1)}, batch {recipe.global_batch} "
        f"(k = {format_number(recipe.batch_ratio)})"
    )
    lines = [head, *(_option_line(recipe, number) for number in range(len(recipe.alternatives)))]
    if why:
        return lines + _long_table(recipe)
    notes = _note_lines(recipe)
    rows = _short_rows(recipe, MAX_LINES - len(lines) - len(notes) - 1)
    return [*lines, *rows, *notes, _next_line(recipe)]


def _option_line(recipe: Recipe, number: int) -> str:
    option = recipe.alternatives[number]
    letter, verb = ("A", "hold ") if option.name == "hold" else ("B", "scale")
    cut = f"{option.micro_batch} x {option.accumulation} x {recipe.num_ranks} rank{'s' * (recipe.num_ranks != 1)}"
    rate = f"lr {format_number(option.lr)}"
    if option.name == "hold":
        rate = f"lr stays {format_number(option.lr)}, nothing moves"
    elif option.tier == "low":
        rate = f"lr: sweep {_text(list(option.sweep))}"
    mark = "  <- this recipe" if option.chosen else ""
    sure = "the rule you gave" if option.tier == "given" else f"{option.tier} confidence"
    return f"{letter} {verb} batch {option.global_batch} = {cut}: {rate} ({sure}){mark}"


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "-" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return format_number(value)
    if isinstance(value, list | tuple):
        return " ".join(_text(item) for item in value)
    return str(value)


def _short_rows(recipe: Recipe, room: int) -> list[str]:
    """The rate always, then what changed in the order of _LABELS; what finds no room is counted."""
    order = list(_LABELS)
    rows = [row for row in recipe.values if row.field in order]
    rows = [row for row in rows if row.before is not None or row.field in _NEW]
    rows = [row for row in rows if row.field == "lr" or _text(row.before) != _text(row.value)]
    rows = [row for row in rows if row.value is not None or row.confidence != "given"]
    rows.sort(key=lambda row: order.index(row.field))
    room -= 1  # the line of column names
    shown = rows if len(rows) <= room else rows[: max(1, room - 1)]
    width = max(len(_LABELS[row.field]) for row in shown)
    left = max(6, *(len(_text(row.before)) for row in shown))
    lines = [f"{'':{width}}  {'before':>{left}}    after"]
    lines += [
        f"{_LABELS[row.field]:<{width}}  {_text(row.before):>{left}} -> {_text(row.value)}" for row in shown
    ]
    if len(shown) < len(rows):
        lines.append(f"and {len(rows) - len(shown)} more values")
    return lines


def _note_lines(recipe: Recipe) -> list[str]:
    """Errors first; at most two, the rest is counted in the last line."""
    found = sorted(recipe.findings, key=lambda finding: -finding.severity)
    notes = [
        f"{'error' if finding.severity == Severity.ERROR else 'note'} {finding.code}: {finding.message}"
        for finding in found
        if finding.severity > Severity.INFO
    ][:2]
    fitted = [row for row in recipe.values if row.field == "critical_batch" and row.source]
    if fitted:
        notes = [_fit_line(recipe, fitted[0]), *notes[:1]]
    if recipe.batch_ratio == 1.0 and not notes:
        notes = ["The global batch is the same, so the learning rate must not move: do not divide it."]
    return notes


def _fit_line(recipe: Recipe, row: Resolved) -> str:
    line = f"critical batch {_text(row.value)}: {row.why}"
    if recipe.critical_batch is not None:
        bill = f"{recipe.samples_stretch:.2f}x the samples of {recipe.base.tuned_batch}"
        line += f"; batch {recipe.global_batch} pays {bill}"
    return line


def _next_line(recipe: Recipe) -> str:
    hidden = len([row for row in recipe.advice if row.value != row.before])
    advice = f"; {hidden} piece{'s' * (hidden != 1)} of advice not applied" if hidden else ""
    found = max(0, len([f for f in recipe.findings if f.severity > Severity.INFO]) - 2)
    more = f"; {found} more note{'s' * (found != 1)}" if found else ""
    unknown = (
        "; critical batch not known (`hemostat train` measures it)" if recipe.critical_batch is None else ""
    )
    tuned = "Run the sweep. " if recipe.is_sweep else "Not retuned: try half and twice the rate. "
    tuned = "" if recipe.batch_ratio == 1.0 else tuned
    return f"{tuned}Reasons: --why{advice}{more}{unknown}"


def _long_table(recipe: Recipe) -> list[str]:
    lines = [""]
    for row in recipe.values:
        lines += _row_lines(row)
    if recipe.advice:
        lines += ["", "Advice, not applied (apply_advice lists what to apply):"]
        for row in recipe.advice:
            lines += _row_lines(row)
    if recipe.findings:
        lines += ["", "Findings:"]
        for finding in recipe.findings:
            lines += textwrap.wrap(
                f"{finding.code} {finding.severity.name.lower()}: {finding.message} {finding.fix}",
                width=108,
                initial_indent="  ",
                subsequent_indent="      ",
            )
    if recipe.batch_ratio != 1.0:
        rates = " ".join(format_number(rate) for rate in recipe.sweep)
        lines += [
            "",
            f"Check before you trust it: 200 steps of the old and the new run, loss against samples; "
            f"then short runs at {rates}.",
        ]
    return lines


def _row_lines(row: Resolved) -> list[str]:
    label = _LABELS.get(row.field, row.field.replace("_", " "))
    if row.confidence == "given" and row.before in (None, row.value):
        return [f"  {label}: {_text(row.value)} ({row.why})"]
    before = "" if row.before is None else f"{_text(row.before)} -> "
    source = f" Source: {row.source}." if row.source else ""
    text = f"{row.why[:1].upper()}{row.why[1:]}.{source} Confidence: {row.confidence}."
    return [
        f"  {label}: {before}{_text(row.value)}",
        *textwrap.wrap(text, width=108, initial_indent="      ", subsequent_indent="      "),
    ]
