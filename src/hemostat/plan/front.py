"""`front`: dollars against days, over numbers of machines and the other machines of the price table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from hemostat.config import Config
from hemostat.plan.candidates import divisible_by
from hemostat.plan.cost import DAY_S, is_same_seller, known_prices, machines_of
from hemostat.plan.hardware import Cluster, Device, instance_device
from hemostat.plan.layout import Layout
from hemostat.plan.prices import Price
from hemostat.plan.profile import Profile
from hemostat.plan.search import Choice, Goal, search
from hemostat.units import format_seconds, format_usd

_SIZES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the cluster that is planned, by its rate of large products
_MOST_SEEDS: Final = 3


class Offer(Config, frozen=True, kw_only=True):
    """A cluster that nothing else beats in both days and dollars.

    Attributes:
        cluster: machines of one kind.
        choice: the way to train on it, with its cost.
    """

    cluster: Cluster
    choice: Choice

    @property
    def days(self) -> float:
        """Of the whole run."""
        return self.choice.cost.days if self.choice.cost else math.inf

    @property
    def usd(self) -> float:
        """Of the whole run, US dollars."""
        return self.choice.cost.usd if self.choice.cost else math.inf

    def sentence(self) -> str:
        """The machines, the layout, and what the run takes on them."""
        return f"{self.cluster} ({self.choice.layout}): {format_seconds(self.days * DAY_S)}, {format_usd(self.usd)}"


def front(profile: Profile, cluster: Cluster, goal: Goal, choices: tuple[Choice, ...]) -> tuple[Offer, ...]:
    """The clusters that are worth a thought, the fastest first: each later one is slower and costs less.

    Machines are those of the seller of the planned one that have a price of the same kind, a quarter to four times as
    much of them as is planned; a price of the user's own is compared with itself in other numbers only. On each,
    layouts like the best of the plan are tried, not all: another search there may find a faster one.

    Args:
        profile: of the model.
        cluster: that is planned.
        goal: with a length and a price; without, there is no front.
        choices: that the plan found, the best first.

    Source: the cost of a run is `run_cost`'s; an offer is left out where another one takes no longer and costs no
        more (Pareto).

    Examples:
        >>> from hemostat.plan.cost import cluster_price
        >>> from hemostat.plan.families import decoder_from_numbers, decoder_profile
        >>> profile, node = decoder_profile(decoder_from_numbers(320e6)), Cluster.read("8xA100-40GB")
        >>> goal = Goal(global_batch=1024, num_tokens=6.4e9, price=cluster_price(node))
        >>> found = front(profile, node, goal, search(profile, node, goal).choices)
        >>> found[0].days < found[-1].days, found[0].usd > found[-1].usd
        (True, True)
    """
    if goal.price is None or goal.num_tokens is None or not choices:
        return ()
    kept: list[Offer] = []
    bounded = [
        (*_least(profile, other, price, goal), other, price)
        for other, price in _clusters(cluster, goal.price)
    ]
    for least_days, least_usd, other, price in sorted(bounded, key=lambda each: each[1]):
        if any(offer.days <= least_days and offer.usd <= least_usd for offer in kept):
            continue
        priced = msgspec.structs.replace(goal, price=price)
        found = choices
        if other is not cluster:
            found = search(profile, other, priced, _like(profile, choices, other, goal.global_batch)).choices
        safe = [choice for choice in found if choice.is_safe(other.device.memory_bytes)]
        kept += [Offer(cluster=other, choice=choice) for choice in safe[:1]]
    chosen: list[Offer] = []
    for offer in sorted(kept, key=lambda each: (each.days, each.usd)):
        if not chosen or offer.usd < chosen[-1].usd:
            chosen.append(offer)
    return tuple(chosen)


def _least(profile: Profile, cluster: Cluster, price: Price, goal: Goal) -> tuple[float, float]:
    """Days and dollars if nothing but products took time, at the rate of the largest ones."""
    flop = profile.flop / profile.num_tokens * (goal.num_tokens or 0.0)
    rate = cluster.device.reached("fp32" if goal.precision == "fp32" else "bf16")
    seconds = flop / (rate * cluster.num_devices)
    return seconds / DAY_S, price.usd(seconds, machines_of(cluster, price))


def _clusters(cluster: Cluster, price: Price) -> Iterator[tuple[Cluster, Price]]:
    """The planned cluster in other numbers, and of each other device its cheapest machine, in numbers as fast."""
    yield cluster, price
    own = cluster.num_nodes
    for size in _SIZES:
        number = max(1, round(own * size))
        if number != own:
            yield msgspec.structs.replace(cluster, num_devices=number * cluster.per_node), price
    if price.kind == "given":
        return
    planned = _rate(cluster.device) * cluster.num_devices
    for other in _machines(cluster.device, price):
        one = Cluster.read(f"1x {other.instance}")
        equal = 2.0 ** round(math.log2(max(1.0, planned / (_rate(one.device) * one.num_devices))))
        for number in sorted({max(1, round(equal * size)) for size in _SIZES}):
            yield msgspec.structs.replace(one, num_devices=number * one.per_node), other


def _machines(device: Device, price: Price) -> list[Price]:
    """Of each other device the machine of this seller that costs least for each of them; of equals the largest."""
    best: dict[str, Price] = {}
    for other in known_prices(spot=price.kind == "spot"):
        found = instance_device(other.instance)
        if found is None or found == device or not is_same_seller(other.instance, price.instance):
            continue
        known = best.get(found.name)
        if known is None or _order(other) < _order(known):
            best[found.name] = other
    return list(best.values())


def _order(price: Price) -> tuple[float, int]:
    """By dollars for a device, in hundredths, then by the number of devices."""
    return round(price.usd_per_hour / price.num_accelerators, 2), -price.num_accelerators


def _rate(device: Device) -> float:
    return device.matmul_flop_per_s * device.sustained_share


def _like(profile: Profile, choices: tuple[Choice, ...], cluster: Cluster, global_batch: int) -> list[Layout]:
    """Layouts like the best ones on another number of devices; and the best with more of tp or pp, and with none."""
    best = choices[0].layout
    seeds = [choice.layout for choice in choices[:_MOST_SEEDS]]
    shapes = [(each.tp, each.pp, each.stages_per_rank, each.fsdp > 1) for each in seeds]
    shapes += [
        (1, 1, 1, True),
        (best.tp, 2 * best.pp, 1, True),
        (cluster.per_node, best.pp, best.stages_per_rank, True),
    ]
    most_tp = math.gcd(cluster.per_node, divisible_by(profile))
    found: dict[Layout, None] = {}
    for tp, pp, stages, is_shared in shapes:
        data_ranks, rest = divmod(cluster.num_devices, tp * pp)
        if (
            rest
            or most_tp % tp
            or not 1 <= data_ranks <= global_batch
            or pp * stages > max(1, profile.num_blocks)
        ):
            continue
        fsdp = data_ranks if is_shared else 1
        layout = Layout(dp=data_ranks // fsdp, fsdp=fsdp, tp=tp, pp=pp, stages_per_rank=stages)
        found[layout.filled(cluster.num_devices)] = None
    return list(found)
