"""Collectives: the measured times come back, and other groups scale as rings do."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hemostat.errors import UnknownNameError
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.traffic import Group, collective_s, group

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "plan" / "collectives_measured.csv"
NODE = Cluster.read("8xA100-80GB")
NODES = Cluster.read("64xA100-80GB")
WHOLE = Group(8, 8)


@pytest.mark.parametrize(
    ("num_bytes", "measured_us"), [(1 << 20, 101.9), (1 << 25, 424.0), (1 << 34, 127997)]
)
def test_a_measured_all_reduce_is_found_again(num_bytes, measured_us):
    assert collective_s("all_reduce", num_bytes, WHOLE, NODE) == pytest.approx(measured_us * 1e-6)


def test_between_measured_sizes_time_grows():
    times = [collective_s("all_reduce", 2.0**power, WHOLE, NODE) for power in range(22, 36)]
    assert times == sorted(times)
    middle_s = collective_s("all_reduce", 3 << 24, WHOLE, NODE)
    assert 424.0e-6 < middle_s < 684.6e-6


def test_small_messages_take_the_least_time_and_huge_ones_the_best_bandwidth():
    assert collective_s("all_reduce", 8, WHOLE, NODE) == pytest.approx(43.83e-6, rel=1e-3)
    one_s, two_s = (collective_s("all_reduce", size, WHOLE, NODE) for size in (1 << 36, 1 << 37))
    assert two_s == pytest.approx(2 * one_s)


def test_half_a_reduction_is_half_the_time_in_a_ring():
    whole_s = collective_s("all_reduce", 1 << 30, WHOLE, NODE)
    assert collective_s("all_gather", 1 << 30, WHOLE, NODE) == pytest.approx(whole_s / 2)
    assert collective_s("reduce_scatter", 1 << 30, WHOLE, NODE) == pytest.approx(whole_s / 2)


def test_the_switch_adds_up_for_all_reduce_only():
    node = Cluster.read("8xH200")
    assert collective_s("all_reduce", 1 << 34, WHOLE, node) == pytest.approx(62340.8e-6)
    ring_s = 7 / 8 * (1 << 34) / 362e9  # 8 x H200 Ring: 361.4 and 362.9 GB/s
    assert collective_s("all_gather", 1 << 34, WHOLE, node) == pytest.approx(ring_s, rel=0.01)


def test_groups_across_nodes_share_the_network():
    size = 1 << 33
    inside_s = collective_s("all_reduce", size, WHOLE, NODES)
    across_s = collective_s("all_reduce", size, Group(16, 8), NODES)
    alone_s = collective_s("all_reduce", size, Group(8, 1), NODES)
    assert inside_s < across_s < alone_s
    # one of eight rings at once: an eighth of 200 GB/s, of which the measured fabric reached 95 %
    assert alone_s == pytest.approx(2 * 7 / 8 * size / (200e9 / 8 * 0.95), rel=0.02)


def test_a_send_takes_the_line():
    assert collective_s("send", 1 << 30, Group(4, 1), NODES) == pytest.approx((1 << 30) / 25e9, rel=0.06)
    assert collective_s("send", 1 << 30, Group(4, 2), NODES) < 0.01


def test_nobody_to_talk_to_or_nothing_to_say():
    assert collective_s("all_reduce", 1 << 30, Group(1, 1), NODE) == 0
    assert collective_s("all_reduce", 0, WHOLE, NODE) == 0
    with pytest.raises(UnknownNameError, match="all_reduce"):
        collective_s("all_reduced", 1, WHOLE, NODE)


def test_ranks_of_the_inner_axis_are_neighbours():
    layout = Layout(dp=4, fsdp=2, tp=4, pp=2)
    assert group(layout, "tp", NODES) == Group(4, 4)
    assert group(layout, "fsdp", NODES) == Group(2, 2)
    assert group(layout, "dp", NODES) == Group(4, 1)
    assert group(layout, "pp", NODES) == Group(2, 1)
    assert group(Layout(dp=4, tp=16), "tp", NODES) == Group(16, 8)


def test_no_measured_node_is_missed_by_more_than_a_percent():
    if not SHARED.exists():
        pytest.skip("../shared/data/plan is not there")
    clusters = {
        "8xA100": (NODE, WHOLE),
        "8xH200 NVLink4": (Cluster.read("8xH200"), WHOLE),
        "8xB200": (Cluster.read("8xB200"), WHOLE),
        "4x8xB200": (Cluster.read("32xB200"), Group(32, 8)),
    }
    checked = 0
    with SHARED.open(newline="") as file:
        for row in csv.DictReader(file):
            found = [name for name in clusters if row["system"].startswith(name)]
            is_noise = row["nodes"] == "4" and int(row["payload_bytes"]) < 1 << 18  # 6 ms for 32 KiB
            if found and row["time_us"] and not is_noise:
                cluster, ranks = clusters[found[0]]
                predicted_s = collective_s("all_reduce", int(row["payload_bytes"]), ranks, cluster)
                assert predicted_s * 1e6 == pytest.approx(float(row["time_us"]), rel=0.01)
                checked += 1
    assert checked == 77
