"""The page with which a team asks for money: pilot, search, final run, reserve, and the cheaper ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hemostat.errors import FieldError
from hemostat.units import format_count, format_usd

if TYPE_CHECKING:
    from hemostat.plan import Plan

# shares of the final run's length: a pilot that shows that the loss falls, and a search of short trials
PILOT: Final = 0.02
SEARCH: Final = 0.25
# of the sum: what went wrong in the published records of long runs was repeated work
RESERVE: Final = 0.15


def ask_lines(plan: Plan) -> list[str]:
    """Markdown, one page.

    Args:
        plan: with a length and a price.

    Raises:
        FieldError: nothing fits, or the length or the price is not known.
    """
    best = plan.best
    if best is None:
        raise FieldError("cluster", str(plan.cluster), "nothing fits", "Ask --fit what would.")
    if best.cost is None:
        raise FieldError(
            "tokens", None, "the page needs a length and a price", "Give --tokens, and plan.usd_per_hour."
        )
    error = best.step.error
    rows = [
        ("pilot", PILOT, "does the loss fall, does a restart work, is the speed as planned"),
        ("search", SEARCH, "learning rate and batch, in short trials"),
        ("final run", 1.0, f"{format_count(plan.goal.num_tokens or 0)} tokens or samples"),
    ]
    total = sum(share for _, share, _ in rows)
    rows.append(("reserve", RESERVE * total, "failures, a second try"))
    lines = [
        f"# Request for {format_usd(best.cost.usd * (1 + RESERVE) * total)}",
        "",
        f"{plan.profile.name}, {format_count(plan.profile.num_params)} parameters, on {plan.cluster}. "
        f"{best.cost.price.sentence()}.",
        "",
        "| part | days | dollars | what it shows |",
        "|---|---|---|---|",
        *(_row(name, share, best.cost, (error, what)) for name, share, what in rows),
        _row("sum", (1 + RESERVE) * total, best.cost, (error, "")),
        "",
        f"Days and dollars are right within about {error:.0%} for runs like those that the forecast was checked on; "
        "loading, evaluation and waiting for machines come on top.",
    ]
    return lines + _alternatives(plan, best.cost)


def _row(name: str, share: float, cost: Any, said: tuple[float, str]) -> str:
    error, what = said
    usd = cost.usd * share
    low, high = usd * (1 - error), usd * (1 + error)
    money = f"{format_usd(usd)} ({format_usd(low)} to {format_usd(high)})"
    return f"| {name} | {cost.days * share:.2f} | {money} | {what} |"


def _alternatives(plan: Plan, cost: Any) -> list[str]:
    lines = ["", "## Cheaper, and what it gives up"]
    if plan.goal.price is not None and plan.goal.price.kind != "spot":
        lines.append(
            "* Spot machines, where there are some: a run may be stopped at any time; `--max-restarts` goes on."
        )
    lines.append(f"* Half of the tokens: half of the money, {format_usd(cost.usd / 2)} less.")
    if plan.notes:
        lines += ["", "## To know", *(f"* {note}" for note in plan.notes)]
    return lines
