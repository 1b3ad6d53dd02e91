"""How long collectives take: bandwidth measured by message size, within a node and between nodes."""

from __future__ import annotations

import csv
import functools
import math
from bisect import bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from hemostat.errors import UnknownNameError
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import AXES, Layout

_TABLE: Final = Path(__file__).parent / "collectives.csv"
# what each rank sends and receives, as a multiple of the payload (nccl-tests, doc/PERFORMANCE.md: "bus bandwidth")
# for n ranks: times (n - 1) / n, but for a send
_FACTORS: Final = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "send": 1.0}
# NVSwitch adds up in the switch only for all-reduce, and NCCL takes that from 5 ranks on. Against it a ring
# reaches 362 of 480 GB/s (8 x H200, 16 GiB; stas00/ml-engineering, network/README.md).
_RING_SHARE: Final = 362.0 / 480.0
_SWITCH_RANKS: Final = 5
_ADAPTERS: Final = 8  # per node, where the network was measured
_SWITCH_CURVES: Final = ("H200", "B200")


class Group(NamedTuple):
    """Ranks that talk to each other.

    Attributes:
        num_ranks: all of them.
        per_node: how many of them are in one node; as many other groups share the node as there is room for.
    """

    num_ranks: int
    per_node: int


class _Curve(NamedTuple):
    """What was measured with `num_ranks`: seconds by payload, both as logarithms, and the line rate there."""

    num_ranks: int
    line_bytes_per_s: float
    log_bytes: list[float]
    log_s: list[float]


def group(layout: Layout, axis: str, cluster: Cluster) -> Group:
    """The ranks along one axis; ranks of the inner axes are neighbours and fill the nodes first.

    Args:
        layout: with `dp` known.
        axis: "dp", "fsdp", "tp" or "pp".
        cluster: whose nodes they are in.

    Examples:
        >>> group(Layout(dp=4, tp=4), "dp", Cluster.read("16xA100-80GB"))
        Group(num_ranks=4, per_node=2)
    """
    sizes = layout.sizes
    stride = math.prod(sizes[inner] for inner in AXES[AXES.index(axis) + 1 :])
    return Group(sizes[axis], max(1, min(sizes[axis], cluster.per_node // stride)))


def collective_s(
    kind: str, num_bytes: float, ranks: Group, cluster: Cluster, shares: tuple[float, float] = (1.0, 1.0)
) -> float:
    """Seconds of one collective.

    In a node the bandwidth is the measured one of that message size, scaled with the line rate of the device.
    Between nodes every ring passes each node once, on its share of the node's network. A ring of n ranks moves n
    pieces, so that n ranks are as fast with S bytes as the measured m ranks with S m / n; and what 8 adapters of a
    node share, 1 adapter has for itself.

    Args:
        kind: "all_reduce", "all_gather", "reduce_scatter" or "send".
        num_bytes: what one rank holds before an all-reduce, a reduce-scatter or a send, and after an all-gather.
        ranks: who takes part; of "send" the two that are next to each other.
        cluster: devices and network.
        shares: of the measured bandwidth that is reached, in a node and between nodes.

    Raises:
        UnknownNameError: a collective of another name.

    Source: collectives.csv (stas00/ml-engineering, network/README.md, nccl-tests on 8 x A100, 8 x H200,
        8 x B200 and 4 x 8 x B200 with 400 GB/s per node); latency and peak bandwidth alone are wrong by half
        between 1 and 128 MiB.

    Examples:
        >>> node = Cluster.read("8xA100-80GB")
        >>> round(collective_s("all_reduce", 2**30, Group(8, 8), node) * 1e3, 2)  # measured: 8.20 ms
        8.2
    """
    if kind not in _FACTORS:
        raise UnknownNameError("collective", kind, _FACTORS)
    num_ranks, per_node = ranks
    if num_ranks == 1 or num_bytes <= 0:
        return 0.0
    is_send = kind == "send"
    within_s = between_s = 0.0
    if per_node > 1:
        near = Group(2 if is_send else per_node, per_node)
        line = cluster.device.link_bytes_per_s
        within_s = _moved_s(kind, num_bytes, near, _curve_name(cluster), line) / shares[0]
    crosses = per_node == 1 if is_send else num_ranks > per_node
    if crosses:
        line = cluster.node_network_bytes_per_s * per_node / cluster.per_node
        between_s = _moved_s(kind, num_bytes, ranks, "network", line) / shares[1]
    return max(within_s, between_s)


def _moved_s(kind: str, num_bytes: float, ranks: Group, name: str, line_bytes_per_s: float) -> float:
    curve = _curves()[name]
    num_ranks = ranks.num_ranks
    alike_bytes = num_bytes * curve.num_ranks / (1 if kind == "send" else num_ranks)
    if kind == "all_reduce" and num_ranks > curve.num_ranks:  # trees: their depth grows with the logarithm
        alike_bytes = num_bytes / (math.log2(num_ranks) / math.log2(curve.num_ranks))
    if name == "network":  # as many adapters share a message as the group has ranks in a node
        alike_bytes *= _ADAPTERS / min(_ADAPTERS, ranks.per_node)
    bus_bytes_per_s = (
        _factor("all_reduce", curve.num_ranks) * alike_bytes / _interpolated_s(curve, alike_bytes)
    )
    if name in _SWITCH_CURVES and (kind != "all_reduce" or num_ranks < _SWITCH_RANKS):
        bus_bytes_per_s *= _RING_SHARE
    share = bus_bytes_per_s / curve.line_bytes_per_s
    return _factor(kind, num_ranks) * num_bytes / (line_bytes_per_s * share)


def _factor(kind: str, num_ranks: int) -> float:
    return _FACTORS[kind] * (1.0 if kind == "send" else (num_ranks - 1) / num_ranks)


def _interpolated_s(curve: _Curve, num_bytes: float) -> float:
    """Straight lines between the measured points on logarithmic axes; beyond: constant time, constant bandwidth."""
    log_bytes, log_s = curve.log_bytes, curve.log_s
    wanted = math.log(num_bytes)
    if wanted <= log_bytes[0]:
        return math.exp(log_s[0])
    if wanted >= log_bytes[-1]:
        return math.exp(log_s[-1] + wanted - log_bytes[-1])
    right = bisect_right(log_bytes, wanted)
    left = right - 1
    part = (wanted - log_bytes[left]) / (log_bytes[right] - log_bytes[left])
    return math.exp(log_s[left] + part * (log_s[right] - log_s[left]))


def _curve_name(cluster: Cluster) -> str:
    """The measured node whose link is nearest; PCIe takes the shape of A100's, the slowest one."""
    link = cluster.device.link_bytes_per_s
    curves = {name: curve for name, curve in _curves().items() if name != "network"}
    return min(curves, key=lambda name: abs(math.log(curves[name].line_bytes_per_s / link)))


@functools.cache
def _curves() -> dict[str, _Curve]:
    found: dict[str, _Curve] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            empty = _Curve(int(row["num_ranks"]), float(row["line_gb_per_s"]) * 1e9, [], [])
            curve = found.setdefault(row["curve"], empty)
            curve.log_bytes.append(math.log(int(row["payload_bytes"])))
            curve.log_s.append(math.log(float(row["all_reduce_us"]) * 1e-6))
    return found
