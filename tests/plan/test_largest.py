"""The largest that fits, does; twice as much does not."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.plan.candidates import layouts, recomputations
from hemostat.plan.families import decoder_from_numbers, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.largest import _fits, largest_batch, largest_model, largest_sample, scaled
from hemostat.plan.search import Goal, choice_of, search

CLUSTER, GOAL = Cluster.read("8xA100-40GB"), Goal(global_batch=1024)


def fits(profile, goal=GOAL) -> bool:
    return any(
        choice.is_safe(CLUSTER.device.memory_bytes) for choice in search(profile, CLUSTER, goal).choices
    )


def test_the_largest_model_fits_and_one_of_twice_the_layers_does_not(story):
    found = largest_model(story, CLUSTER, GOAL)
    assert found.choice is not None and found.choice.is_safe(CLUSTER.device.memory_bytes)
    layers = next(n for n in range(1, 1000) if scaled(story, n).num_params >= found.value)
    assert fits(decoder_profile(scaled(story, layers)))
    assert not fits(decoder_profile(scaled(story, 2 * layers)))


def test_the_longest_sample_fits_and_twice_that_does_not(story):
    found = largest_sample(story, CLUSTER, GOAL)
    longer = decoder_profile(msgspec.structs.replace(story, num_tokens=2 * found.value))
    assert found.value > story.num_tokens and not fits(longer, Goal(global_batch=1))


def test_the_largest_batch_of_one_pass(story_profile):
    found = largest_batch(story_profile, CLUSTER, GOAL)
    assert found.value == found.choice.workload.micro_batch * found.choice.layout.num_data_ranks
    assert found.choice.workload.accumulation == 1
    assert found.choice.is_safe(CLUSTER.device.memory_bytes)
    ranks = [layout for layout in layouts(story_profile, CLUSTER, 8) if layout.pp == 1]
    for layout in (more for axes in ranks for more in recomputations(axes)):
        micro_batch = found.value // layout.num_data_ranks + 1
        goal = Goal(global_batch=micro_batch * layout.num_data_ranks)
        choice = choice_of(story_profile, CLUSTER, goal, (layout, micro_batch))
        assert not choice.is_safe(CLUSTER.device.memory_bytes)
    assert found.value % 512  # no power of two stops it


@pytest.mark.parametrize("num_params", [1e9, 6e9, 12e9, 14e9, 16e9, 30e9])
def test_what_is_said_to_fit_is_what_the_search_finds(num_params):
    profile = decoder_profile(decoder_from_numbers(num_params))
    assert _fits(profile, CLUSTER, GOAL) is fits(profile)


def test_where_not_even_the_smallest_fits_nothing_does(story):
    tiny = Cluster.read("1xT4")
    tiny = msgspec.structs.replace(tiny, device=msgspec.structs.replace(tiny.device, memory_bytes=1 << 30))
    for found in (
        largest_batch(decoder_profile(story), tiny, GOAL),
        largest_sample(story, tiny, GOAL),
        largest_model(story, tiny, GOAL),
    ):
        assert (found.value, found.choice) == (0, None)


@pytest.mark.parametrize("num_layers", [1, 7, 48])
def test_proportions_stay(story, num_layers):
    grown = scaled(story, num_layers)
    assert grown.num_layers == num_layers and grown.hidden == grown.num_heads * grown.head_width
    assert grown.ffn == 4 * grown.hidden
