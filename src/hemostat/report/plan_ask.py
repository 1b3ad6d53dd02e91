"""The page with which a team asks for money: pilot, search, final run, reserve, and the cheaper ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hemostat.errors import FieldError
from hemostat.report.plan_cheaper import WORTH, Other, others
from hemostat.report.plan_page import double_sentence
from hemostat.report.plan_row import machines, usd_text
from hemostat.report.plan_way_out import ways_out
from hemostat.units import format_count, format_usd_range, format_within

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

PILOT_STEPS: Final = 2000
"""Steps of the pilot: the longest warm-up of a recipe, behind which the loss must fall.

Source: docs/recipe.md, warm-up of 500 to 2000 steps.
"""
MOST_PILOT: Final = 0.1  # of a short run
DEVELOPMENT: Final = 0.5
"""What pilot and search take together, as a part of the final run.

Source: Morrison et al. 2025 (arXiv 2503.05804), abstract: development took about half of what training took.
"""
RESERVE: Final = 1 / 0.9 - 1
"""Of the sum: what failures cost.

Source: Grattafiori et al. 2024 (arXiv 2407.21783), section 3.3.4: over 90 % of the time was effective training time.
"""
_DAY_S: Final = 86_400.0


class Part(NamedTuple):
    """One line of the request: its name, its part of the final run, and why it is so much."""

    name: str
    share: float
    why: str


def parts_of(num_steps: int) -> tuple[Part, ...]:
    """Pilot, search, final run and reserve.

    Args:
        num_steps: of the final run.

    Examples:
        >>> [(part.name, round(part.share, 3)) for part in parts_of(100_000)]
        [('pilot', 0.02), ('search', 0.48), ('final run', 1.0), ('reserve', 0.167)]
    """
    pilot = min(MOST_PILOT, PILOT_STEPS / num_steps)
    search = DEVELOPMENT - pilot
    return (
        Part(
            "pilot",
            pilot,
            "does the loss fall, does a restart work, is the speed as planned; the warm-up's length",
        ),
        Part(
            "search",
            search,
            "learning rate and batch in short trials; with the pilot half of the final run (1)",
        ),
        Part("final run", 1.0, ""),
        Part("reserve", RESERVE * (1 + DEVELOPMENT), "failures and lost steps; a tenth of the paid time (2)"),
    )


def ask_lines(plan: Plan) -> list[str]:
    """Markdown, one page.

    Args:
        plan: with a length and a price.

    Raises:
        FieldError: nothing fits, or the length or the price is not known.
    """
    best = plan.best
    if best is None:
        raise FieldError(
            "cluster", str(plan.cluster), "nothing fits", f"What would: {'; '.join(ways_out(plan))}."
        )
    if best.cost is None:
        raise FieldError(
            "tokens", None, "the page needs a length and a price", "Give --tokens, and plan.usd_per_hour."
        )
    parts = parts_of(best.cost.num_steps)
    total = Part("sum", sum(part.share for part in parts), "")
    what = "tokens" if plan.profile.num_tokens > 1 else "samples"
    length = f"{format_count(plan.goal.num_tokens or 0)} {what} in {best.cost.num_steps:,} steps"
    lines = [
        f"# Request for {usd_text(best, total.share)}",
        "",
        f"{plan.profile.name}, {format_count(plan.profile.num_params)} parameters, on {plan.cluster}: "
        f"{machines(best.cost.num_machines)}, {format_count(best.cost.device_hours)} device hours for the final run, "
        f"${best.cost.usd_per_million_tokens:.3g} per million {what}. {best.cost.price.sentence()}.",
        "",
        "| part | of the final run | time | dollars | what for, and why so much |",
        "|---|---|---|---|---|",
        *(_row(best, part, length) for part in (*parts, total)),
        "",
        f"Time and dollars are right within about {best.step.error:.0%} for runs like those that the forecast was "
        "checked on; data loading, evaluation and waiting for machines come on top. (1) Morrison et al. 2025, "
        "arXiv 2503.05804: development took about half of what training took. (2) Grattafiori et al. 2024, "
        "arXiv 2407.21783, section 3.3.4: 90 % of the time was effective training.",
    ]
    return lines + _alternatives(plan, best, total)


def _row(best: Choice, part: Part, length: str) -> str:
    seconds = best.cost.days * _DAY_S * part.share if best.cost else 0.0
    return (
        f"| {part.name} | {part.share:.1%} | {format_within(seconds, seconds * best.step.error, 's')} | "
        f"{usd_text(best, part.share)} | {part.why or (length if part.name == 'final run' else '')} |"
    )


def _alternatives(plan: Plan, best: Choice, total: Part) -> list[str]:
    lines = ["", "## Cheaper, and what it gives up"]
    if best.cost is None:
        return lines
    found = others(plan)
    least = best.cost.usd * (1 - WORTH)
    for each in found:
        if each.usd < least:
            less = 1 - each.usd / best.cost.usd
            lines.append(
                f"* {_offer(each, best, total.share)}, {less:.0%} less. What it gives up: {each.gives_up}."
            )
    dear = [_offer(each, best, total.share) for each in found if each.usd >= least]
    if dear:
        lines.append(f"* Not cheaper: {'; '.join(dear)}.")
    half = total.share / 2
    lines.append(
        f"* Half of the tokens: half of everything, {usd_text(best, half)} less. It gives up quality: the loss of "
        "the same model is higher."
    )
    if doubled := double_sentence(plan):
        lines += ["", "## Faster", f"* {doubled}, for the final run."]
    if plan.notes:
        lines += ["", "## To know", *(f"* {note}" for note in plan.notes)]
    return lines


def _offer(other: Other, best: Choice, share: float) -> str:
    """What another way costs, for everything that is asked for."""
    error, usd, low = best.step.error, other.usd * share, other.low_usd * share
    money = format_within(usd, usd * error, "usd")
    if low < usd:
        money = format_usd_range(low * (1 - error), usd * (1 + error))
    seconds = other.days * _DAY_S * share
    return f"{other.what}: {money} for everything, {format_within(seconds, seconds * error, 's')}"
