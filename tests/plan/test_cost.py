"""Days and dollars: arithmetic from the price table, and older machines that cost more for the same work."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.cost import better_machine, cluster_price, flop_per_usd, run_cost
from hemostat.plan.duration import Duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.prices import price_usd_per_hour

STEP = Duration(
    compute_s=0.8,
    recompute_s=0.0,
    tp_s=0.0,
    send_s=0.0,
    bubble_s=0.0,
    gradient_s=0.15,
    optimizer_s=0.05,
    num_samples=512,
    num_tokens=512 * 2048,
    model_flop=1e15,
    peak_flop_per_s=16 * 312e12,
)


def test_one_box_for_four_days_or_two_for_eighteen_hours():
    """96 box-hours against 36: two boxes are 62.5 % cheaper at any price, 1.8 times the speed of two ideal ones."""
    for name in ("p3.16xlarge", "ml.p3.16xlarge", "p4d.24xlarge"):
        price = price_usd_per_hour(name)
        one_usd, two_usd = price.usd(4 * 86400), price.usd(18 * 3600, num_machines=2)
        assert 1 - two_usd / one_usd == pytest.approx(0.625)
    assert price_usd_per_hour("ml.p3.16xlarge").usd(4 * 86400) == pytest.approx(96 * 30.6)


def test_days_and_dollars_of_a_run():
    cluster = Cluster.read("2x p4d.24xlarge")
    cost = run_cost(STEP, cluster, price_usd_per_hour("p4d.24xlarge", given="$36/h"), num_tokens=1e9)
    assert cost.num_steps == 954  # 953.7
    assert cost.days == pytest.approx(954 / 86400)
    assert cost.num_machines == 2
    assert cost.device_hours == pytest.approx(954 / 3600 * 16)
    assert cost.usd == pytest.approx(954 * 2 * 36 / 3600)
    assert cost.usd_per_million_tokens == pytest.approx(2 * 36 / 3600 / (512 * 2048) * 1e6)
    assert cost.low_usd == cost.usd


def test_spot_is_a_range_and_has_its_date():
    price = price_usd_per_hour("p4d.24xlarge", spot=True)
    cost = run_cost(STEP, Cluster.read("2x p4d.24xlarge"), price, num_tokens=1e12)
    assert cost.low_usd / cost.usd == pytest.approx(2.4655 / 8.0001)
    said = cost.price.sentence()
    assert "cheapest zone $2.47" in said
    assert "spot" in said
    assert price.date in said


def test_a_price_per_node_counts_nodes():
    cluster = Cluster.read("64xH100-80GB")
    assert run_cost(STEP, cluster, cluster_price(cluster), num_tokens=1e9).num_machines == 8
    own = cluster_price(cluster, given="$1/h")
    assert run_cost(STEP, cluster, own, num_tokens=1e9).num_machines == 8


@pytest.mark.parametrize("num_tokens", [0, -1, float("inf"), float("nan")])
def test_no_tokens_are_refused(num_tokens):
    with pytest.raises(FieldError, match="above 0"):
        run_cost(STEP, Cluster.read("H100"), price_usd_per_hour("p5.4xlarge"), num_tokens=num_tokens)


def test_the_cheapest_whole_node_with_these_devices_is_taken():
    assert cluster_price(Cluster.read("64xH100-80GB")).instance == "p5.48xlarge"
    assert cluster_price(Cluster.read("8xA100-80GB")).instance == "p4de.24xlarge"
    assert cluster_price(Cluster.read("1xH100")).instance == "p5.4xlarge"
    assert cluster_price(Cluster.read("8xA100-80GB"), spot=True).kind == "spot"
    with pytest.raises(FieldError, match="no price"):
        cluster_price(Cluster.read("8xMI325X"))


def test_an_old_machine_that_costs_more_for_the_same_work_is_said():
    """8 x V100 reach 0.8 x 125 TFLOP/s for $24.48, 8 x B200 1,745 for $113.93: 3.7 times as many per dollar."""
    said = better_machine("p3.16xlarge")
    assert said.startswith("p3.16xlarge costs 3.7 times what p6-b200.48xlarge costs")
    ratio = (8 * 1745 / 113.9328) / (8 * 0.8 * 125 / 24.48)
    assert f"{ratio:.1f}" == "3.7"
    assert said.count("2026-07-20") == 2  # both prices with their day


def test_the_newer_machine_is_of_the_same_seller_and_no_smaller():
    for name, seller in (
        ("ml.p3.16xlarge", "ml."),
        ("Standard_ND40rs_v2", "Standard_"),
        ("a2-highgpu-8g", "-"),
    ):
        other = better_machine(name).partition("times what ")[2].partition(" ")[0]
        assert seller in other
        assert price_usd_per_hour(other).num_accelerators >= 8
    assert "g6e.xlarge" in better_machine("p3.2xlarge")  # one device, as there


def test_nothing_is_said_of_the_best_and_of_what_is_not_known():
    assert better_machine("p6-b300.48xlarge") == ""
    assert better_machine("trn1.32xlarge") == ""
    assert flop_per_usd(price_usd_per_hour("trn1.32xlarge")) is None
    with pytest.raises(UnknownNameError):
        better_machine("p9.48xlarge")
