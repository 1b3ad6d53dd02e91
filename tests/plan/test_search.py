"""The search: nothing that fits is slower than what it chose, and what does not fit says what it needs."""

from __future__ import annotations

import math
import time

import msgspec
import pytest

from hemostat.plan.candidates import layouts, recomputations, workloads
from hemostat.plan.duration import duration
from hemostat.plan.families import Decoder, decoder_from_numbers, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.memory import peak
from hemostat.plan.parallel.pp import even_pace
from hemostat.plan.prices import price_usd_per_hour
from hemostat.plan.search import Goal, _rank, choice_of, search

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


@pytest.mark.parametrize(
    ("text", "global_batch", "sizes"),
    [
        ("8xA100-40GB", 256, {"num_params": 320e6, "num_layers": 24, "hidden": 1024}),
        ("8xA100-40GB", 100, {"num_params": 7e9}),  # shards, and passes of unlike size
        ("8xA100-40GB", 16, {"num_params": 13e9, "num_layers": 40}),  # stages
        ("16xV100-16GB", 32, {"num_params": 3e9}),
        ("24xA100-40GB", 24, {"num_params": 30e9, "num_layers": 48}),
    ],
)
def test_pruning_leaves_out_nothing_that_is_better(text, global_batch, sizes):
    profile = decoder_profile(decoder_from_numbers(**sizes))
    cluster, goal = Cluster.read(text), Goal(global_batch=global_batch)
    found = search(profile, cluster, goal)
    everything = [
        choice_of(profile, cluster, goal, (layout, work.micro_batch))
        for axes in layouts(profile, cluster, goal.global_batch)
        for layout in recomputations(axes)
        for work in workloads(layout, goal.global_batch, goal.optimizer, goal.precision)
    ]
    fitting = [each for each in everything if each.is_safe(cluster.device.memory_bytes)]
    assert fitting and len(everything) > found.num_tried
    assert _rank(found.choices[0], cluster) == min(_rank(each, cluster) for each in fitting)


@pytest.mark.parametrize("global_batch", [100, 122, 1024])
def test_a_step_counts_the_samples_that_are_trained(story_profile, global_batch):
    cluster, price = Cluster.read("8xA100-40GB"), price_usd_per_hour("p4d.24xlarge")
    found = search(story_profile, cluster, Goal(global_batch=global_batch, num_tokens=1e9, price=price))
    for choice in found.choices:
        assert choice.step.num_samples == global_batch
        assert choice.cost.num_steps == math.ceil(1e9 / (global_batch * 1024))
        assert choice.step.mfu == pytest.approx(
            global_batch * story_profile.flop / choice.step.step_s / (8 * 312e12)
        )


def test_passes_that_differ_by_a_sample_take_a_time_between(story_profile):
    cluster, layout = Cluster.read("8xA100-40GB"), Layout(dp=8)
    steps = [
        choice_of(story_profile, cluster, Goal(global_batch=8 * share), (layout, 16)).step.step_s
        for share in (7 * 15, 7 * 15 + 3, 7 * 16)
    ]
    assert steps == sorted(steps)
    assert (steps[1] - steps[0]) / (steps[2] - steps[0]) == pytest.approx(3 / 7, rel=0.01)


def test_of_about_equals_the_simplest_comes_first(story_profile):
    cluster, goal = Cluster.read("4xA100-80GB"), Goal(global_batch=64)
    simple = choice_of(story_profile, cluster, goal, (Layout(dp=4), 16))
    shared = msgspec.structs.replace(simple, layout=Layout(dp=1, fsdp=4))
    assert _rank(simple, cluster) < _rank(shared, cluster)
    shorter = msgspec.structs.replace(shared.step, compute_s=shared.step.compute_s - 0.1 * shared.step.step_s)
    assert _rank(msgspec.structs.replace(shared, step=shorter), cluster) < _rank(simple, cluster)


def test_what_is_found_differs_by_more_than_a_number_of_shards(story_profile):
    found = search(story_profile, Cluster.read("32xA100-40GB"), Goal(global_batch=64))
    kinds = [
        (each.layout.tp, each.layout.pp, each.layout.fsdp > 1, each.layout.dp > 1) for each in found.choices
    ]
    assert len(set(kinds)) == len(kinds) > 5
    hybrids = [
        layout.fsdp for layout in layouts(story_profile, Cluster.read("32xA100-40GB"), 64) if layout.dp > 1
    ]
    assert len(set(hybrids)) > 3


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


def test_a_pipeline_is_forecast_as_training_cuts_it():
    sizes = {"num_layers": 8, "hidden": 64, "num_heads": 4, "num_kv_heads": 4, "head_width": 16, "ffn": 256}
    headed = decoder_profile(Decoder(vocab=4000, num_tokens=128, **sizes))
    borders = even_pace(headed, 2)
    assert borders[1] > 4  # the head is worth a few blocks
    layout = Layout(dp=1, pp=2, schedule="1f1b")
    cluster = Cluster.read("2xA100-40GB")
    choice = choice_of(headed, cluster, Goal(global_batch=64), (layout, 8))
    assert choice.memory == peak(headed, layout, choice.workload, borders)
    assert choice.memory != peak(headed, layout, choice.workload)
    assert choice.step == duration(headed, layout, choice.workload, cluster, None, borders)
