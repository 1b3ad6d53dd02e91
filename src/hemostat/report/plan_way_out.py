"""The same question asked again: on another cluster, at another price, and what helps where nothing fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hemostat.plan import Plan
from hemostat.report.plan_command import layout_text
from hemostat.units import format_bytes

if TYPE_CHECKING:
    from hemostat.plan import Choice

# that are rented by the hour today and are faster than what came before them, with as many of them in a node
NEWER: Final = ("H100-80GB", "H200", "B200", "B300")
NODE: Final = 8
MOST_TIMES: Final = 64  # as many devices; beyond that nobody asks for the same model
MOST_DEVICES: Final = 32_768


def ask_again(plan: Plan, cluster: str, **values: Any) -> Plan:
    """A plan of the same model, batch and length.

    Args:
        plan: as it was made; terms that were refitted to a measured step stay with its own devices.
        cluster: as `--cluster` takes it.
        values: of `[plan]`, over those of the plan.

    Raises:
        HemostatError: no such cluster.
    """
    goal = plan.goal
    same: dict[str, Any] = {"global_batch": goal.global_batch, "optimizer": goal.optimizer}
    same |= {"num_tokens": goal.num_tokens, "precision": goal.precision}
    if goal.price is not None and goal.price.kind == "spot":
        same["spot"] = True
    return Plan.make(plan.profile, cluster, {**same, **values})


def cluster_of(plan: Plan, num_devices: int) -> str:
    """The same devices or machines, at least so many.

    Args:
        plan: on the cluster that is resized.
        num_devices: wanted; whole machines are taken where one is not enough.
    """
    cluster = plan.cluster
    per_node = cluster.per_node if cluster.instance else cluster.device.per_node
    if num_devices > per_node or cluster.instance:
        num_devices = -(-num_devices // per_node) * per_node
    if cluster.instance:
        return f"{num_devices // per_node}x {cluster.instance}"
    return f"{num_devices}x{cluster.device.name}"


def ways_out(plan: Plan) -> Iterator[str]:
    """What makes it fit where nothing does: the cheapest change, more devices, a larger batch.

    Args:
        plan: for which nothing fits.
    """
    found = 0
    changed = list(_changed(plan)) or _larger_devices(plan)
    for way in (*changed, *_larger_batch(plan), *_more_devices(plan)):
        found += 1
        yield way
    if not found:
        yield (
            f"none on up to {MOST_TIMES} times as many devices: take devices with more memory, fewer tokens a sample, "
            "or a smaller model (--fit says how large a one fits)"
        )


def _changed(plan: Plan) -> Iterator[str]:
    """One change of the layout that comes closest."""
    if plan.found.rejected:
        layout = plan.found.rejected[0].layout
        near = ask_again(plan, str(plan.cluster), layout=layout.changed, micro_batch=1)
        if near.changes:
            yield f"{layout_text(layout)} with {near.changes[0].sentence()}"


def _larger_batch(plan: Plan) -> Iterator[str]:
    """Where no layout was possible at all, since there are fewer samples than ranks that need one."""
    if plan.found.rejected:
        return
    number = plan.cluster.num_devices
    for batch in (number // 64, number // 8, number):
        if batch > plan.goal.global_batch:
            best = ask_again(plan, str(plan.cluster), global_batch=batch).best
            if best is not None:
                yield f"--global-batch {batch}: {_fit(best)}"
                return


def newer(name: str, num_devices: int) -> str:
    """So many of the newer devices, in whole nodes.

    Examples:
        >>> newer("H200", 12), newer("H200", 4)
        ('16xH200', '4xH200')
    """
    return f"{num_devices if num_devices <= NODE else -(-num_devices // NODE) * NODE}x{name}"


def _larger_devices(plan: Plan) -> Iterator[str]:
    """As many devices with more memory, the first on which it fits."""
    if not plan.found.rejected:
        return
    for name in NEWER:
        other = ask_again(plan, newer(name, plan.cluster.num_devices))
        if other.best is not None and other.cluster.device.memory_bytes > plan.cluster.device.memory_bytes:
            yield f"--cluster {other.cluster}: {_fit(other.best)}"
            return


def _more_devices(plan: Plan) -> Iterator[str]:
    if not plan.found.rejected:
        return
    times = 2
    while times <= MOST_TIMES and times * plan.cluster.num_devices <= MOST_DEVICES:
        name = cluster_of(plan, times * plan.cluster.num_devices)
        best = ask_again(plan, name).best
        if best is not None:
            yield f"--cluster {repr(name) if ' ' in name else name}: {_fit(best)}"
            return
        times *= 2


def _fit(best: Choice) -> str:
    return (
        f"{layout_text(best.layout)} at micro-batch {best.workload.micro_batch}, "
        f"{format_bytes(best.memory.device.num_bytes)} a device"
    )
