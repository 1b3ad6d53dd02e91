"""What a step time comes to in days and dollars, and whether a newer machine would do the same work for less."""

from __future__ import annotations

import math
from typing import Final

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.plan.duration import Duration
from hemostat.plan.hardware import Cluster, instance_device
from hemostat.plan.prices import Price, known_instances, price_usd_per_hour

DAY_S: Final = 86_400.0


class Cost(Config, frozen=True, kw_only=True):
    """Time and money of a run.

    Attributes:
        num_steps: optimizer steps, whole ones.
        days: of computing; loading, evaluation and failures come on top.
        device_hours: of all devices together.
        usd: at the price, US dollars.
        low_usd: at the cheapest zone, for a spot price; else the same.
        usd_per_million_tokens: at the price.
        price: per machine and hour, with its date and source.
        num_machines: that are paid for.
    """

    num_steps: int
    days: float
    device_hours: float
    usd: float
    low_usd: float
    usd_per_million_tokens: float
    price: Price
    num_machines: int


def run_cost(step: Duration, cluster: Cluster, price: Price, *, num_tokens: float) -> Cost:
    """Days and dollars of a run over so many tokens; a model without tokens has one a sample.

    Args:
        step: the predicted or measured step.
        cluster: that it runs on.
        price: of one machine; one that does not say how many devices it has counts as a node of the cluster.
        num_tokens: of the whole run; a last step that is not full counts as one.

    Raises:
        FieldError: no tokens.

    Source: device-hours times the price per hour; Cottier et al. 2024 (arXiv 2405.21015), section 2.1, count the cost
        of training runs in the same way.
    """
    if not 0 < num_tokens < math.inf:
        raise FieldError("tokens", num_tokens, "must be above 0", 'Write it like --tokens "1T".')
    num_steps = math.ceil(num_tokens / step.num_tokens)
    seconds = num_steps * step.step_s
    num_machines = machines_of(cluster, price)
    usd = price.usd(seconds, num_machines)
    low = price.low_usd_per_hour
    return Cost(
        num_steps=num_steps,
        days=seconds / DAY_S,
        device_hours=seconds / 3600 * cluster.num_devices,
        usd=usd,
        low_usd=usd if low is None or not price.usd_per_hour else usd * low / price.usd_per_hour,
        usd_per_million_tokens=usd / (num_steps * step.num_tokens) * 1e6,
        price=price,
        num_machines=num_machines,
    )


def machines_of(cluster: Cluster, price: Price) -> int:
    """How many machines of a price a cluster is; one that does not say how many devices it has counts as a node.

    Source: instances.csv, whose price lists sell whole machines.

    Examples:
        >>> machines_of(Cluster.read("16xA100-40GB"), price_usd_per_hour("p4d.24xlarge"))
        2
    """
    return math.ceil(cluster.num_devices / (price.num_accelerators or cluster.per_node))


def cluster_price(cluster: Cluster, *, spot: bool = False, given: str | float | None = None) -> Price:
    """The price of a cluster's machine; of a cluster that names only devices, that of the cheapest whole node.

    Args:
        cluster: "2x p4d.24xlarge" has its machine; for "16xA100-40GB" the table is searched.
        spot: the spot price.
        given: the user's own price of one machine per hour; it wins over the table.

    Raises:
        FieldError: the table has no machine with these devices and such a price.

    Examples:
        >>> cluster_price(Cluster.read("16xA100-40GB")).instance
        'p4d.24xlarge'
    """
    if cluster.instance or given is not None:
        return price_usd_per_hour(cluster.instance, spot=spot, given=given)
    found = known_price(cluster, spot=spot)
    if found is None:
        raise FieldError(
            "cluster",
            str(cluster),
            f"has no {'spot ' if spot else ''}price: no machine in the table has {cluster.per_node} of these",
            'Give one per node: "$30/h".',
        )
    return found


def known_price(cluster: Cluster, *, spot: bool = False) -> Price | None:
    """The cheapest whole node with the devices of a cluster; None where the table has none.

    Examples:
        >>> known_price(Cluster.read("8xMI325X")) is None
        True
    """
    found = [
        price
        for price in known_prices(spot=spot)
        if not price.instance.startswith("ml.")
        and instance_device(price.instance) == cluster.device
        and price.num_accelerators == cluster.per_node
    ]
    return min(found, key=lambda price: price.usd_per_hour, default=None)


def flop_per_usd(price: Price) -> float | None:
    """FLOP of large 16-bit products that a dollar buys; None for a machine whose devices are not known.

    Source: devices.csv and instances.csv, which name theirs: devices, times the best measured rate, over the price.

    Examples:
        >>> f"{flop_per_usd(price_usd_per_hour('p4d.24xlarge')):.2e}"
        '3.56e+17'
    """
    found = instance_device(price.instance)
    if found is None or not price.usd_per_hour:
        return None
    return price.num_accelerators * found.matmul_flop_per_s * 3600 / price.usd_per_hour


def better_machine(instance: str, *, spot: bool = False) -> str:
    """Say which faster machine of the same seller does the same work for less; empty where none does.

    One with as many devices goes before a larger one. Faster means each device is: what fits on the old machine
    fits on the new one, and takes less time on as many.

    Args:
        instance: what the user means to rent, "ml." for a SageMaker job.
        spot: compare spot prices.

    Raises:
        UnknownNameError: not in the table.

    Examples:
        >>> better_machine("p3.16xlarge").partition(":")[0]
        'p3.16xlarge costs 3.7 times what p6-b200.48xlarge costs for the same work'
        >>> better_machine("p6-b300.48xlarge")
        ''
    """
    price = price_usd_per_hour(instance, spot=spot)
    mine, own = instance_device(instance), flop_per_usd(price)
    if mine is None or own is None:
        return ""
    better: list[tuple[bool, float, Price]] = []
    for other in known_prices(spot=spot):
        if not is_same_seller(other.instance, instance):
            continue
        theirs, offered = instance_device(other.instance), flop_per_usd(other)
        if theirs is None or offered is None or other.num_accelerators < price.num_accelerators:
            continue
        is_faster = theirs.matmul_flop_per_s > mine.matmul_flop_per_s
        if is_faster and theirs.memory_bytes >= mine.memory_bytes and offered > own:
            better.append((other.num_accelerators == price.num_accelerators, offered, other))
    if not better:
        return ""
    _, most, best = max(better, key=lambda found: found[:2])
    return (
        f"{instance} costs {most / own:.1f} times what {best.instance} costs for the same work: "
        f"{price.sentence()}; {best.sentence()}; compared by the FLOP of large 16-bit products per dollar"
    )


def is_same_seller(instance: str, other: str) -> bool:
    """Tell whether two machines are rented out by one seller.

    Examples:
        >>> is_same_seller("p4d.24xlarge", "p5.48xlarge"), is_same_seller("p4d.24xlarge", "ml.p4d.24xlarge")
        (True, False)
    """
    return _seller(instance) == _seller(other)


def known_prices(*, spot: bool = False) -> list[Price]:
    """The price of every machine of the table that has one, "ml." names included."""
    found = []
    for instance in known_instances():
        try:
            found.append(price_usd_per_hour(instance, spot=spot))
        except FieldError:  # the table has no such price for it
            continue
    return found


def _seller(instance: str) -> str:
    """Who rents it out, by the form of its name."""
    if instance.startswith("ml."):
        return "sagemaker"
    return "azure" if instance.startswith("Standard_") else "aws" if "." in instance else "gcp"
