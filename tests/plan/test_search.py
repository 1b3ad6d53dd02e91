"""The search: nothing that fits is slower than what it chose, and what does not fit says what it needs."""

from __future__ import annotations

import time

from hemostat.plan.candidates import layouts, recomputations, workloads
from hemostat.plan.families import Decoder, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.search import ABOUT_EQUAL, Goal, choice_of, search

LLAMA_405B = Decoder(
    name="Llama-3.1-405B",
    num_layers=126,
    hidden=16384,
    num_heads=128,
    num_kv_heads=8,
    head_width=128,
    ffn=53248,
    vocab=128256,
    num_tokens=8192,
)


def test_pruning_leaves_out_nothing_that_is_faster(story_profile):
    cluster, goal = Cluster.read("8xA100-40GB"), Goal(global_batch=256)
    best = search(story_profile, cluster, goal).choices[0]
    everything = [
        choice_of(story_profile, cluster, goal, (layout, work.micro_batch))
        for axes in layouts(story_profile, cluster, goal.global_batch)
        for layout in recomputations(axes)
        for work in workloads(layout, goal.global_batch, goal.optimizer, goal.precision)
    ]
    fitting = [each for each in everything if each.is_safe(cluster.device.memory_bytes)]
    assert len(everything) > 300
    least = min(each.step.step_s / each.step.num_samples for each in fitting)
    assert best.step.step_s / best.step.num_samples <= least * (1 + 2 * ABOUT_EQUAL)


def test_of_about_equals_the_simplest_comes_first(tiny_profile):
    found = search(tiny_profile, Cluster.read("4xA100-40GB"), Goal(global_batch=64))
    assert str(found.choices[0].layout) == "dp=4"
    assert not found.rejected


def test_what_does_not_fit_is_named_with_its_least_need(story_profile):
    found = search(story_profile, Cluster.read("8xA100-40GB"), Goal(global_batch=8))
    assert found.choices
    large = decoder_profile(LLAMA_405B)
    nothing = search(large, Cluster.read("8xA100-40GB"), Goal(global_batch=8))
    assert not nothing.choices
    needs = [each.memory.device.num_bytes for each in nothing.rejected]
    assert needs == sorted(needs) and needs[0] > 40 * 2**30


def test_405b_on_16384_devices_takes_less_than_two_seconds():
    cluster, profile = Cluster.read("16384xH100-80GB"), decoder_profile(LLAMA_405B)
    begun_s = time.process_time()
    found = search(profile, cluster, Goal(global_batch=2048))
    assert time.process_time() - begun_s < 2.0
    assert found.choices[0].layout.tp > 1 and found.choices[0].is_safe(cluster.device.memory_bytes)


def test_only_the_layouts_that_were_named(tiny_profile):
    found = search(tiny_profile, Cluster.read("4xA100-40GB"), Goal(global_batch=64), [Layout(dp=2, tp=2)])
    assert [str(choice.layout) for choice in found.choices] == ["dp=2,tp=2"]
