"""One change at a time: the story of the source material, and that each change is one."""

from __future__ import annotations

import pytest

from hemostat.plan.changes import changes
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


def test_devices_with_more_memory_are_named_without_a_price(story_profile):
    found = changes(story_profile, CLUSTER, GOAL, Layout(dp=8), 32)
    assert any(change.what.startswith("devices of ") and change.extra_usd is None for change in found)


def test_copies_become_shards_and_data_ranks_become_stages(story_profile):
    wide = Goal(global_batch=64)
    found = {
        change.what for change in changes(story_profile, Cluster.read("8xV100-16GB"), wide, Layout(dp=8), 8)
    }
    assert "recompute=full" in found or "recompute=selective" in found
    assert any(what.startswith("--layout") for what in found) or "micro_batch=4, accumulation=2" in found
