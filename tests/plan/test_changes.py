"""One change at a time: the story of the source material, and that each change is one."""

from __future__ import annotations

import pytest

from hemostat.plan.changes import _larger, _single, changes
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.prices import price_usd_per_hour
from hemostat.plan.search import Goal, choice_of

CLUSTER = Cluster.read("8xA100-40GB")
GOAL = Goal(global_batch=1024, num_tokens=6.4e9, price=price_usd_per_hour("p4d.24xlarge"))


def test_accumulation_makes_the_large_batch_fit_and_is_the_cheapest(story_profile):
    before = choice_of(story_profile, CLUSTER, GOAL, (Layout(dp=8), 128))
    assert not before.memory.fits(CLUSTER.device.memory_bytes)
    found = changes(story_profile, CLUSTER, GOAL, Layout(dp=8), 128)
    assert found[0].what == "micro_batch=16, accumulation=8"
    assert all(change.fits for change in found)
    prices = [change.extra_usd for change in found if change.extra_usd is not None]
    assert prices == sorted(prices)
    assert found[0].slower == pytest.approx(found[0].choice.step.step_s / before.step.step_s) and found[
        0
    ].choice.cost.usd - before.cost.usd == pytest.approx(found[0].extra_usd)
    assert sum(change.what.startswith("micro_batch") for change in found) == 1
    assert found[0].sentence().startswith("micro_batch=16, accumulation=8: ")


def test_devices_with_more_memory_are_of_the_same_maker_and_have_their_price(story_profile):
    goal = Goal(global_batch=256, num_tokens=6.4e9, price=price_usd_per_hour("p4d.24xlarge"))
    found = changes(story_profile, CLUSTER, goal, Layout(dp=8), 32)
    larger = {change.what: change for change in found if change.what.startswith("devices of ")}
    assert "devices of A100-80GB (p4de.24xlarge)" in larger and len(larger) == 2
    change = larger["devices of A100-80GB (p4de.24xlarge)"]
    assert change.choice.cost.price.instance == "p4de.24xlarge"
    before = choice_of(story_profile, CLUSTER, goal, (Layout(dp=8), 32))
    assert change.extra_usd == pytest.approx(change.choice.cost.usd - before.cost.usd)
    own = Goal(global_batch=256, num_tokens=6.4e9, price=price_usd_per_hour("p4d.24xlarge", given=10))
    for change in changes(story_profile, CLUSTER, own, Layout(dp=8), 32):
        assert not change.what.startswith("devices of ") or change.extra_usd is None


@pytest.mark.parametrize("text", ["8xA100-40GB", "8xL40S", "8xMI300X", "2x p3.16xlarge", "8xT4"])
def test_no_other_maker_is_offered(text):
    cluster = Cluster.read(text)
    offered = _larger(cluster, price_usd_per_hour("p4d.24xlarge"))
    assert offered
    for grown, _ in offered:
        assert grown.device.maker == cluster.device.maker
        assert grown.device.memory_bytes > cluster.device.memory_bytes
        assert grown.num_devices == cluster.num_devices


WIDE = Goal(global_batch=64)
SMALL = Cluster.read("8xV100-16GB")


def test_a_smaller_pass_that_fits_is_offered_once(story_profile):
    found = [change.what for change in changes(story_profile, SMALL, WIDE, Layout(dp=8), 8)]
    assert [what for what in found if what.startswith("micro_batch")] == ["micro_batch=4, accumulation=2"]


def test_recomputation_copies_and_data_ranks_are_each_changed_alone(story_profile):
    wanted = Layout(dp=8)
    found = {what: layout for what, layout, _ in _single(story_profile, WIDE, wanted, 8)}
    assert {"recompute=selective", "recompute=full"} <= found.keys()
    assert {what for what in found if what.startswith("--layout")} == {
        '--layout "fsdp=8"',
        '--layout "pp=2,dp=4"',
        '--layout "dp=4,tp=2"',
    }
    for what, layout in found.items():
        changed = {name for name, value in layout.changed.items() if wanted.changed.get(name) != value}
        expected = {"recompute"} if what.startswith("recompute") else {"dp", "fsdp", "tp", "pp", "schedule"}
        assert changed <= expected
    full = [change for change in changes(story_profile, SMALL, WIDE, wanted, 8) if "recompute" in change.what]
    assert full and all(change.fits and change.slower > 1 for change in full)
