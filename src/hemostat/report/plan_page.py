"""A plan as text: the layouts that fit, the peak, what does not fit and what would make it, and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hemostat.units import format_bytes, format_count, format_seconds, format_usd

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

MAX_SHOWN: Final = 4
MAX_ITEMS: Final = 4
_GIB: Final = 2**30
_DAY_S: Final = 86_400.0
_SAME: Final = 0.01  # a part of the time that is not worth a word


def plan_lines(plan: Plan, why: bool = False) -> list[str]:
    """The answer of `hemostat plan`, in at most 12 lines.

    Args:
        plan: as it was made.
        why: all layouts, the terms of the step, every moment of the memory, and what was assumed.
    """
    lines = [_head(plan)]
    shown = plan.found.choices if why else plan.found.choices[:MAX_SHOWN]
    if shown:
        lines += _table([choice_cells(plan, choice) for choice in shown])
        lines.append(f"peak     {peak_sentence(shown[0])}")
    else:
        lines.append("best     nothing fits" + (f": {_rejected(plan)}" if plan.found.rejected else ""))
    if plan.wanted is not None:
        lines += _wanted(plan, plan.wanted)
    if shown and plan.found.rejected:
        lines.append(f"not      {_rejected(plan)}")
    if doubled := double_sentence(plan):
        lines.append(f"double   {doubled}")
    if plan.goal.price is not None:
        lines.append(f"price    {plan.goal.price.sentence()}")
    lines += [f"note     {note}" for note in (plan.notes if why else plan.notes[:2])]
    return lines + (_reasons(plan) if why else [])


def fit_lines(plan: Plan) -> list[str]:
    """How large a batch, sample and model fit, and what a day and a thousand dollars buy.

    Args:
        plan: with its largest sizes.
    """
    lines = [_head(plan)]
    for each in plan.largest:
        if each.choice is None:
            lines.append(f"fits     no {each.what}: not even the smallest")
            continue
        layout, device = each.choice.layout, each.choice.memory.device
        more = "" if layout.recompute == "none" else f",recompute={layout.recompute}"
        lines.append(f"fits     {format_count(each.value)} {each.what}: {layout}{more}, {device}")
    best = plan.best
    if best is not None:
        rate = best.step.tokens_per_s * _DAY_S
        lines.append(f"a day    {format_count(rate)} tokens or samples under {best.layout}")
        if plan.goal.price is not None:
            machines = -(
                -plan.cluster.num_devices // (plan.goal.price.num_accelerators or plan.cluster.per_node)
            )
            per_day = plan.goal.price.usd(_DAY_S, machines)
            lines.append(
                f"$1,000   {format_count(rate / per_day * 1000)} tokens or samples, at {format_usd(per_day)} a day"
            )
    return lines


def choice_cells(plan: Plan, choice: Choice) -> list[str]:
    """One layout as a row: layout, batch, memory, step, speed, MFU, days, dollars."""
    layout, work, step = choice.layout, choice.workload, choice.step
    more = "" if layout.recompute == "none" else f",recompute={layout.recompute}"
    if layout.stages_per_rank > 1:
        more += f",schedule=interleaved,stages_per_rank={layout.stages_per_rank}"
    if not layout.reshard:
        more += ",reshard=false"
    device = choice.memory.device
    is_safe = choice.is_safe(plan.cluster.device.memory_bytes)
    cells = [
        f"{layout}{more}",
        f"{work.micro_batch} x {work.accumulation}",
        f"{device.num_bytes / _GIB:.1f} GiB ({device.low_bytes / _GIB:.0f} to {device.high_bytes / _GIB:.0f})"
        + ("" if is_safe else " risky"),
        f"{format_seconds(step.step_s)}",
        f"{format_count(step.tokens_per_s)}/s",
        f"{step.mfu:.0%}",
    ]
    if choice.cost is not None:
        low = "" if choice.cost.low_usd == choice.cost.usd else f"{format_usd(choice.cost.low_usd)} to "
        cells += [format_seconds(choice.cost.days * _DAY_S), f"{low}{format_usd(choice.cost.usd)}"]
    return cells


def peak_sentence(choice: Choice) -> str:
    """Where and when the peak is, and of what.

    Args:
        choice: one layout.
    """
    memory = choice.memory
    top = memory.peak
    where = f"stage {top.stage}, " if any(moment.stage for moment in memory.moments) else ""
    items = ", ".join(f"{item.name} {format_bytes(item.num_bytes)}" for item in top.items[:MAX_ITEMS])
    more = len(top.items) - MAX_ITEMS
    return f"{where}{top.phase}: {items}" + (f" and {more} smaller" if more > 0 else "")


def double_sentence(plan: Plan) -> str:
    """What twice the devices save and cost; empty where it is not known."""
    best, twice = plan.best, plan.doubled
    if best is None or twice is None:
        return ""
    number = 2 * plan.cluster.num_devices
    if best.cost is None or twice.cost is None:
        ratio = best.step.step_s / best.step.num_samples / (twice.step.step_s / twice.step.num_samples)
        return f"{number} devices are {ratio:.2f} times as fast"
    saved, extra = best.cost.days - twice.cost.days, twice.cost.usd - best.cost.usd
    money = f"cost {format_usd(abs(extra))} {'more' if extra >= 0 else 'less'}"
    if saved * _DAY_S < best.cost.days * _DAY_S * _SAME:
        return f"{number} devices save no time and {money}"
    return f"{number} devices save {format_seconds(saved * _DAY_S)} and {money}"


def _head(plan: Plan) -> str:
    profile, goal = plan.profile, plan.goal
    tokens = f", {profile.num_tokens:,} tokens a sample" if profile.num_tokens > 1 else ""
    batch = f"batch {goal.global_batch:,}"
    if profile.num_tokens > 1:
        batch += f" ({format_count(goal.global_batch * profile.num_tokens)} tokens)"
    return (
        f"plan     {profile.name}, {format_count(profile.num_params)} parameters{tokens}; {plan.cluster} "
        f"({plan.cluster.device.memory_bytes / _GIB:.1f} GiB each); {batch}"
    )


def _table(rows: list[list[str]]) -> list[str]:
    head = ["layout", "micro x acc", "memory of a device", "step", "speed", "MFU", "time", "dollars"]
    rows = [head[: len(rows[0])], *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        ("best     " if number == 1 else "         ")
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for number, row in enumerate(rows)
    ]


def _wanted(plan: Plan, wanted: Choice) -> list[str]:
    memory = plan.cluster.device.memory_bytes
    fits = (
        "fits" if wanted.is_safe(memory) else "may not fit" if wanted.memory.fits(memory) else "does not fit"
    )
    line = (
        f"wanted   {wanted.layout} at micro-batch {wanted.workload.micro_batch} {fits}: "
        f"{wanted.memory.device} of {format_bytes(memory)}; {peak_sentence(wanted)}"
    )
    lines = [line]
    if plan.changes:
        lines.append(f"change   {plan.changes[0].sentence()}")
        lines += [f"         {change.sentence()}" for change in plan.changes[1:3]]
    elif fits != "fits":
        lines.append("change   no single change makes it fit")
    return lines


def _rejected(plan: Plan) -> str:
    said = [
        f"{each.layout} needs {format_bytes(each.memory.device.num_bytes)} ({each.memory.peak.phase})"
        for each in plan.found.rejected[:3]
    ]
    more = len(plan.found.rejected) - 3
    return "; ".join(said) + (f"; and {more} others" if more > 0 else "")


def _reasons(plan: Plan) -> list[str]:
    lines = ["", f"{plan.found.num_tried} layouts and micro-batches were looked at"]
    if plan.best is not None:
        terms = plan.best.step.terms.items()
        lines.append(
            "step     " + ", ".join(f"{name[:-2]} {format_seconds(value)}" for name, value in terms if value)
        )
        for moment in plan.best.memory.moments:
            items = ", ".join(
                f"{item.name} {format_bytes(item.num_bytes)}" for item in moment.items[:MAX_ITEMS]
            )
            lines.append(
                f"memory   stage {moment.stage}, {moment.phase}: {format_bytes(moment.num_bytes)}: {items}"
            )
        memory = plan.best.memory
        lines.append(
            f"means    allocated {memory.allocated}; reserved {memory.reserved}; on the device {memory.device}"
        )
    return lines + [f"assumed  {note}" for note in (plan.profile.source, *plan.profile.notes) if note]
