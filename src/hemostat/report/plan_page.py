"""A plan as text: the layouts that fit, the peak, what does not fit and what would make it, and the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hemostat.report.plan_command import YOURS, command, layout_text, precision_of
from hemostat.report.plan_row import MAX_ITEMS, choice_cells, head_line, machines, peak_sentence, table
from hemostat.report.plan_way_out import ways_out
from hemostat.units import format_bytes, format_count, format_seconds, format_within

if TYPE_CHECKING:
    from hemostat.plan import Plan

MAX_LINES: Final = 12
MAX_SHOWN: Final = 4
MAX_WIDTH: Final = 180  # of a note or a price; the whole sentence stands under --why
_LEAST_SAID: Final = 40  # of a sentence that is cut
_DAY_S: Final = 86_400.0
_SAME: Final = 0.01  # a part of the time that is not worth a word
_FIRST: Final = 2  # notes of the plan that go before all others
_TIED: Final = (
    "speeds that differ by less than a forecast can tell count as equal: the simplest of them is first"
)
_Line = tuple[int, str]  # what goes last where there is no room, and the text


def plan_lines(plan: Plan, task: str | None = None, more: Sequence[str] = ()) -> list[str]:
    """The answer of `hemostat plan`, in at most 12 lines, with what matters least left out.

    Args:
        plan: as it was made.
        task: "file.py:Class", or empty where the plan is not one of a task; None: no command.
        more: lines of the caller's, such as the recipe.
    """
    lines = [(0, head_line(plan)), *_body(plan), *_about_money(plan), *_notes(plan)]
    lines += [(1, each) for each in more]
    lines += [(0, line) for line in _run(plan, task)]
    kept = sorted(range(len(lines)), key=lambda index: (lines[index][0], index))[:MAX_LINES]
    return [lines[index][1] for index in sorted(kept)]


def why_lines(plan: Plan, task: str | None = None, more: Sequence[str] = ()) -> list[str]:
    """All layouts, the terms of the step, every moment of the memory, and what was assumed.

    Args:
        plan: as it was made.
        task: as for `plan_lines`.
        more: lines of the caller's.
    """
    lines = [head_line(plan), *(text for _, text in _body(plan, len(plan.found.choices), 10))]
    lines += [text for _, text in _about_money(plan, is_whole=True)]
    lines += [f"note     {note}" for note in (*_own_notes(plan), *plan.notes, _TIED)]
    return [*lines, *more, *_run(plan, task), *_reasons(plan)]


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
    money = f"cost {format_within(abs(extra), best.step.error * abs(extra), 'usd').partition(' ')[0]} "
    money += "more" if extra >= 0 else "less"
    if abs(extra) < _SAME * best.cost.usd:
        money = "cost about the same"
    if saved < best.cost.days * _SAME:
        return f"{number} devices save no time and {money}"
    text = format_within(saved * _DAY_S, saved * _DAY_S * best.step.error, "s").partition(" ±")[0]
    return f"{number} devices save {text} and {money}"


def _body(plan: Plan, max_shown: int = MAX_SHOWN, max_items: int = MAX_ITEMS) -> Iterator[_Line]:
    """The layouts, the peak, what was wanted, what does not fit; the way out where nothing does."""
    shown = plan.found.choices[:max_shown]
    if shown:
        what = "tokens" if plan.profile.num_tokens > 1 else "samples"
        head, first, *others = table([choice_cells(plan, choice) for choice in shown], f"{what}/s")
        yield from [(0, head), (0, first)]
        yield from ((rank, row) for rank, row in zip((3, 6, 8), others, strict=False))
        yield from ((9, row) for row in others[3:])
        yield 1, f"peak     {peak_sentence(shown[0], max_items)}"
    else:
        yield 0, f"best     nothing fits: {_rejected(plan) or _no_layout(plan)}"
        yield from ((1 + number, f"way out  {way}") for number, way in enumerate(ways_out(plan)))
    yield from _wanted(plan)
    if shown and plan.found.rejected:
        yield 5, f"not      {_rejected(plan)}"


def _wanted(plan: Plan) -> Iterator[_Line]:
    wanted, memory = plan.wanted, plan.cluster.device.memory_bytes
    if wanted is None:
        return
    fits = (
        "fits" if wanted.is_safe(memory) else "may not fit" if wanted.memory.fits(memory) else "does not fit"
    )
    yield (
        0,
        f"wanted   {layout_text(wanted.layout)} at micro-batch {wanted.workload.micro_batch} {fits}: "
        f"{wanted.memory.device} of {format_bytes(memory)}; {peak_sentence(wanted)}",
    )
    for number, change in enumerate(plan.changes[:3]):
        yield (0, 7, 8)[number], f"{'change' if number == 0 else '':<9}{change.sentence()}"
    if fits != "fits" and not plan.changes:
        yield 0, "change   no single change makes it fit"


def _about_money(plan: Plan, is_whole: bool = False) -> Iterator[_Line]:
    if doubled := double_sentence(plan):
        yield 4, f"double   {doubled}"
    if plan.goal.price is not None:
        sentence = plan.goal.price.sentence()
        yield 2, f"price    {sentence if is_whole else short(sentence)}"


def _notes(plan: Plan) -> Iterator[_Line]:
    yield from ((1, f"note     {short(note)}") for note in _own_notes(plan))
    yield from (
        (2 if number < _FIRST else 5, f"note     {short(note)}") for number, note in enumerate(plan.notes)
    )
    if plan.found.choices and _is_slower_than_another(plan):
        yield 9, f"note     {_TIED}"


def _own_notes(plan: Plan) -> Iterator[str]:
    """What the figures themselves give reason to say, the weightiest first."""
    best, device = plan.best, plan.cluster.device
    if plan.profile.source.startswith("not traced"):
        yield plan.profile.source
    if best is not None and not best.is_safe(device.memory_bytes):
        yield (
            f"risky: the upper end, {format_bytes(best.memory.device.high_bytes)}, is more than a device has; "
            f'--layout "{layout_text(best.layout)}" names the change that makes it safe'
        )
    if precision_of(plan) != plan.goal.precision:
        yield f"{device.name} has no {plan.goal.precision}: it computes in {precision_of(plan)}, and is timed so"


def _is_slower_than_another(plan: Plan) -> bool:
    speeds = [choice.step.tokens_per_s for choice in plan.found.choices]
    return max(speeds) > speeds[0] * (1 + _SAME)


def _run(plan: Plan, task: str | None) -> list[str]:
    if task is None or plan.best is None:
        return []
    remarks = [f"on each of {machines(plan.cluster.num_nodes)}"] if plan.cluster.num_nodes > 1 else []
    remarks += [] if task else [f"{YOURS} is yours to write, with this model"]
    return [f"run      {command(plan, plan.best, task)}" + (f"  # {'; '.join(remarks)}" if remarks else "")]


def _rejected(plan: Plan) -> str:
    said = [
        f"{layout_text(each.layout)} needs {format_bytes(each.memory.device.num_bytes)} ({each.memory.peak.phase})"
        for each in plan.found.rejected[:3]
    ]
    more = len(plan.found.rejected) - 3
    return "; ".join(said) + (f"; and {more} other{'s' * (more > 1)}" if more > 0 else "")


def _no_layout(plan: Plan) -> str:
    """Why a search has looked at nothing at all."""
    batch, number = plan.goal.global_batch, plan.cluster.num_devices
    return (
        f"a batch of {batch:,} sample{'s' * (batch > 1)} cannot be shared out over {number:,} devices "
        "by any legal product of the axes"
    )


def short(sentence: str) -> str:
    """A sentence as it fits a line: whole, or its first part, and where the rest of it stands.

    Examples:
        >>> short("one: two"), len(short("a" * 100 + ": " + "b" * 100))
        ('one: two', 108)
    """
    if len(sentence) <= MAX_WIDTH:
        return sentence
    ends = [sentence.find(mark, _LEAST_SAID, MAX_WIDTH) for mark in ("; ", ": ")]
    cut = min((end for end in ends if end > 0), default=sentence.rfind(" ", 0, MAX_WIDTH))
    return f"{sentence[: cut if cut > 0 else MAX_WIDTH]} (--why)"


def _reasons(plan: Plan) -> Iterator[str]:
    yield ""
    yield f"{plan.found.num_tried} layouts and micro-batches were looked at"
    best = plan.best
    if best is not None:
        terms = best.step.terms.items()
        yield "step     " + ", ".join(
            f"{name[:-2]} {format_seconds(value)}" for name, value in terms if value
        )
        for moment in best.memory.moments:
            items = ", ".join(
                f"{item.name} {format_bytes(item.num_bytes)}" for item in moment.items[:MAX_ITEMS]
            )
            yield f"memory   stage {moment.stage}, {moment.phase}: {format_bytes(moment.num_bytes)}: {items}"
        memory = best.memory
        yield f"means    allocated {memory.allocated}; reserved {memory.reserved}; on the device {memory.device}"
        if best.cost is not None:
            yield (
                f"bill     {best.cost.num_steps:,} steps, {format_count(best.cost.device_hours)} device hours, "
                f"${best.cost.usd_per_million_tokens:.3g} per million tokens, "
                f"{machines(best.cost.num_machines)}"
            )
    yield from (f"assumed  {note}" for note in (plan.profile.source, *plan.profile.notes) if note)
