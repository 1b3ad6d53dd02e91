"""What fits on a cluster, and what so many dollars or days buy there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from hemostat.report.plan_command import layout_text
from hemostat.report.plan_row import head_line
from hemostat.units import format_count, format_usd, format_within

if TYPE_CHECKING:
    from hemostat.plan import Plan

_DAY_S: Final = 86_400.0


class Budget(NamedTuple):
    """What somebody has.

    Attributes:
        usd: dollars.
        days: of computing.
    """

    usd: float = 1000.0
    days: float = 1.0


def fit_lines(plan: Plan, budget: Budget | None = None) -> list[str]:
    """How large a batch, sample and model fit, and how much training so many days and dollars buy.

    Args:
        plan: with its largest sizes.
        budget: dollars and days; None: a thousand and one.

    Examples:
        >>> from hemostat.plan import Plan
        >>> plan = Plan.make(Plan.profile_of_numbers({"num_params": 320e6}), "8xA100-40GB", {})
        >>> [line[:8].strip() for line in fit_lines(plan, Budget(usd=500.0))]
        ['plan', '1 day', '$500']
    """
    lines = [head_line(plan)]
    for each in plan.largest:
        if each.choice is None:
            lines.append(f"fits     no {each.what}: not even the smallest")
            continue
        layout, device = each.choice.layout, each.choice.memory.device
        lines.append(f"fits     {format_count(each.value)} {each.what}: {layout_text(layout)}, {device}")
    return lines + _bought(plan, budget or Budget())


def _bought(plan: Plan, budget: Budget) -> list[str]:
    best = plan.best
    if best is None:
        return []
    what = "tokens" if plan.profile.num_tokens > 1 else "samples"
    rate, error = best.step.tokens_per_s * _DAY_S, best.step.error
    number = rate * budget.days
    days = f"{budget.days:g} day{'s' * (budget.days != 1)}"
    layout = layout_text(best.layout)
    lines = [f"{days:<8} {format_within(number, number * error, 'count')} {what} under {layout}"]
    price = plan.goal.price
    if price is not None and price.usd_per_hour:
        per_day = price.usd(_DAY_S, plan.cluster.num_nodes)
        number = rate * budget.usd / per_day
        amount = format_usd(budget.usd).removesuffix(".00")
        lines.append(
            f"{amount:<8} {format_within(number, number * error, 'count')} {what} in "
            f"{format_within(budget.usd / per_day * _DAY_S, 0.0, 's').partition(' ±')[0]}, "
            f"at {format_usd(per_day)} a day"
        )
    return lines
