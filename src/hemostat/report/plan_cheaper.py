"""What a run would cost otherwise: spot machines, fewer of them, newer ones; each priced by a plan of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from hemostat.errors import FieldError
from hemostat.plan import price_usd_per_hour
from hemostat.report.plan_command import layout_text
from hemostat.report.plan_way_out import NEWER, ask_again, cluster_of, newer

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

MANY: Final = 1024  # devices: beyond, a second plan of each kind takes too long
WORTH: Final = 0.01  # of the money: what saves less saves nothing


class Other(NamedTuple):
    """Another way to train the same.

    Attributes:
        what: machines or devices, and the layout.
        usd: of the final run, US dollars; for spot the median over zones.
        low_usd: in the cheapest zone; else the same.
        days: of the final run.
        gives_up: what is worse, or what is better besides.
    """

    what: str
    usd: float
    low_usd: float
    days: float
    gives_up: str


def others(plan: Plan) -> list[Other]:
    """Other ways to the same model, the cheapest first, those that cost more included.

    Args:
        plan: with a cost.
    """
    best = plan.best
    if best is None or best.cost is None:
        return []
    return sorted((*_spot(plan, best), *_fewer(plan), *_newer(plan)), key=lambda each: each.usd)


def _spot(plan: Plan, best: Choice) -> Iterator[Other]:
    """The same machines, which may be taken away at any time."""
    price, cost = plan.goal.price, best.cost
    if price is None or cost is None or price.kind != "on demand":
        return
    try:
        spot = price_usd_per_hour(price.instance, spot=True)
    except FieldError:  # the table has no spot price for it
        return
    share = spot.usd_per_hour / price.usd_per_hour
    low = (spot.low_usd_per_hour or spot.usd_per_hour) / price.usd_per_hour
    yield Other(
        f"{cost.num_machines}x {price.instance} on spot ({spot.date or 'no date'})",
        cost.usd * share,
        cost.usd * low,
        cost.days,
        "they may be taken away at any time, with the steps since the last checkpoint, and there may be none",
    )


def _fewer(plan: Plan) -> Iterator[Other]:
    for part in (2, 4):
        if plan.cluster.num_nodes % part == 0:
            yield from _priced(plan, cluster_of(plan, plan.cluster.num_devices // part))


def _newer(plan: Plan) -> Iterator[Other]:
    """As many newer devices, and half as many where that is a whole number of nodes."""
    own, number = plan.cluster.device, plan.cluster.num_devices
    counts = [number, number // 2] if plan.cluster.num_nodes % 2 == 0 and number <= MANY else [number]
    for name in NEWER:
        if name != own.name:
            for count in counts:
                yield from _priced(plan, newer(name, count), own.peak(plan.goal.precision))


def _priced(plan: Plan, cluster: str, peak_flop_per_s: float = 0.0) -> Iterator[Other]:
    """The same on another cluster, whose devices have more than so many FLOP/s; nothing where that has no price."""
    other = ask_again(plan, cluster)
    best, own = other.best, plan.best
    if best is None or best.cost is None or own is None or own.cost is None:
        return
    device = other.cluster.device
    if device.peak(other.goal.precision) <= peak_flop_per_s or not best.is_safe(device.memory_bytes):
        return
    times = best.cost.days / own.cost.days
    gives_up = (
        f"time, of which it takes {times:.1f} times as much" if times > 1 else "nothing, it is faster too"
    )
    what = f"{other.cluster} ({best.cost.price.instance} {best.cost.price.date}), {layout_text(best.layout)}"
    yield Other(what, best.cost.usd, best.cost.low_usd, best.cost.days, gives_up)
