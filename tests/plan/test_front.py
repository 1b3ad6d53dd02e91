"""The front of days and dollars: nothing on it is beaten, and nothing that was left out beats it."""

from __future__ import annotations

import itertools
import time

import msgspec
import pytest

from hemostat.plan.cost import cluster_price, is_same_seller
from hemostat.plan.families import Decoder, decoder_profile
from hemostat.plan.front import _clusters, _least, _like, front
from hemostat.plan.hardware import Cluster
from hemostat.plan.prices import price_usd_per_hour
from hemostat.plan.search import Goal, search

NODE = Cluster.read("8xA100-40GB")
GOAL = Goal(global_batch=1024, num_tokens=6.4e9, price=cluster_price(NODE))


def test_each_later_offer_is_slower_and_costs_less(story_profile):
    found = front(story_profile, NODE, GOAL, search(story_profile, NODE, GOAL).choices)
    assert len(found) > 3 and len({offer.cluster.device.name for offer in found}) > 2
    for before, after in itertools.pairwise(found):
        assert before.days < after.days and before.usd > after.usd
    for offer in found:
        assert offer.choice.is_safe(offer.cluster.device.memory_bytes)
        assert offer.choice.layout.num_ranks == offer.cluster.num_devices
        assert is_same_seller(offer.choice.cost.price.instance, "p4d.24xlarge")
        assert offer.choice.cost.price.kind == "on demand"


def test_nothing_that_was_left_out_beats_an_offer(story_profile):
    choices = search(story_profile, NODE, GOAL).choices
    found = front(story_profile, NODE, GOAL, choices)
    own = choices[0].cost
    assert any(offer.days <= own.days and offer.usd <= own.usd for offer in found)
    for cluster, price in _clusters(NODE, GOAL.price):
        priced = msgspec.structs.replace(GOAL, price=price)
        layouts = _like(story_profile, choices, cluster, GOAL.global_batch)
        searched = choices if cluster is NODE else search(story_profile, cluster, priced, layouts).choices
        safe = [choice for choice in searched if choice.is_safe(cluster.device.memory_bytes)]
        for choice in searched:
            days, usd = _least(story_profile, cluster, price, priced)
            assert days < choice.cost.days and usd < choice.cost.usd  # the bound is one
        for cost in (choice.cost for choice in safe[:1]):
            assert any(offer.days <= cost.days and offer.usd <= cost.usd for offer in found)


@pytest.mark.parametrize(
    ("text", "kind"), [("ml.p4d.24xlarge", "sagemaker training"), ("p4d.24xlarge", "spot")]
)
def test_prices_are_of_one_kind(story_profile, text, kind):
    cluster = Cluster.read(text)
    goal = msgspec.structs.replace(GOAL, price=cluster_price(cluster, spot=kind == "spot"))
    found = front(story_profile, cluster, goal, search(story_profile, cluster, goal).choices)
    assert found and {offer.choice.cost.price.kind for offer in found} == {kind}


def test_a_price_of_ones_own_is_compared_in_numbers_only(story_profile):
    goal = msgspec.structs.replace(GOAL, price=price_usd_per_hour("p4d.24xlarge", given=5.0))
    found = front(story_profile, NODE, goal, search(story_profile, NODE, goal).choices)
    assert {offer.cluster.device.name for offer in found} == {"A100-40GB"}
    assert {offer.cluster.num_devices for offer in found} <= {8, 16, 32}


def test_without_a_length_a_price_or_a_layout_there_is_none(story_profile):
    choices = search(story_profile, NODE, GOAL).choices
    assert front(story_profile, NODE, msgspec.structs.replace(GOAL, num_tokens=None), choices) == ()
    assert front(story_profile, NODE, msgspec.structs.replace(GOAL, price=None), choices) == ()
    assert front(story_profile, NODE, GOAL, ()) == ()


def test_405b_on_16384_devices_takes_less_than_two_seconds_with_its_search():
    sizes = {"num_layers": 126, "hidden": 16384, "num_heads": 128, "num_kv_heads": 8, "head_width": 128}
    profile = decoder_profile(Decoder(ffn=53248, vocab=128256, num_tokens=8192, **sizes))
    cluster = Cluster.read("16384xH100-80GB")
    goal = Goal(global_batch=2048, num_tokens=15e12, price=cluster_price(cluster))
    begun_s = time.process_time()
    found = front(profile, cluster, goal, search(profile, cluster, goal).choices)
    assert time.process_time() - begun_s < 2.0
    assert len(found) > 2
