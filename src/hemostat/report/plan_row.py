"""Lines of a plan's page: what is planned, one layout as a row with an error bar on each figure, the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hemostat.report.plan_command import layout_text
from hemostat.units import (
    error_decimals,
    format_bytes,
    format_count,
    format_usd_range,
    format_within,
)

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

MAX_ITEMS: Final = 3
_GIB: Final = 2**30
_DAY_S: Final = 86_400.0


def head_line(plan: Plan) -> str:
    """What is planned, on what."""
    profile, goal = plan.profile, plan.goal
    tokens = f", {profile.num_tokens:,} tokens a sample" if profile.num_tokens > 1 else ""
    batch = f"batch {goal.global_batch:,}"
    if profile.num_tokens > 1:
        batch += f" ({format_count(goal.global_batch * profile.num_tokens)} tokens)"
    return (
        f"plan     {profile.name}, {format_count(profile.num_params)} parameters{tokens}; {plan.cluster} "
        f"({plan.cluster.device.memory_bytes / _GIB:.1f} GiB each); {batch}"
    )


def choice_cells(plan: Plan, choice: Choice) -> list[str]:
    """One layout as a row: layout, batch, memory, step, speed, MFU, days, dollars, each with its error bar."""
    work, step, device = choice.workload, choice.step, choice.memory.device
    is_safe = choice.is_safe(plan.cluster.device.memory_bytes)
    mfu, error = 100 * step.mfu, 100 * step.mfu * step.error
    decimals = max(0, min(1, error_decimals(error))) if error else 0
    cells = [
        layout_text(choice.layout),
        f"{work.micro_batch} x {work.accumulation}",
        f"{device.num_bytes / _GIB:.1f} GiB ({device.low_bytes / _GIB:.0f} to {device.high_bytes / _GIB:.0f})"
        + ("" if is_safe else " risky"),
        format_within(step.step_s, step.step_s * step.error, "s"),
        format_within(step.tokens_per_s, step.tokens_per_s * step.error, "count"),
        f"{mfu:.{decimals}f}% ±{error:.{decimals}f}",
    ]
    if choice.cost is not None:
        cells += [format_within(choice.cost.days * _DAY_S, choice.cost.days * _DAY_S * step.error, "s")]
        cells += [usd_text(choice)]
    return cells


def usd_text(choice: Choice, share: float = 1.0) -> str:
    """Dollars of a run with the error bar of its time; for spot from the cheapest zone on.

    Args:
        choice: with a cost.
        share: of the run.
    """
    cost, error = choice.cost, choice.step.error
    if cost is None:
        return ""
    low, usd = cost.low_usd * share, cost.usd * share
    if low < usd:
        return format_usd_range(low * (1 - error), usd * (1 + error))
    return format_within(usd, usd * error, "usd")


def peak_sentence(choice: Choice, max_items: int = MAX_ITEMS) -> str:
    """Where and when the peak is, and of what.

    Args:
        choice: one layout.
        max_items: tensors that are named.
    """
    memory = choice.memory
    top = memory.peak
    where = f"stage {top.stage}, " if any(moment.stage for moment in memory.moments) else ""
    items = ", ".join(f"{item.name} {format_bytes(item.num_bytes)}" for item in top.items[:max_items])
    more = len(top.items) - max_items
    return f"{where}{top.phase}: {items}" + (f" and {more} smaller" if more > 0 else "")


def machines(number: int) -> str:
    """Examples: "1 machine", "8 machines"."""
    return f"{number:,} machine{'s' * (number != 1)}"


def table(rows: list[list[str]], speed: str) -> list[str]:
    """Rows under their heads, the first one as the best.

    Args:
        rows: cells of each layout.
        speed: what a second is counted in: "tokens/s" or "samples/s".
    """
    head = ["layout", "micro x acc", "memory of a device", "step", speed, "MFU", "time", "dollars"]
    rows = [head[: len(rows[0])], *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        ("best     " if number == 1 else "         ")
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for number, row in enumerate(rows)
    ]
