"""Legal layouts: every one is a product of the devices, and none cuts what cannot be cut."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.candidates import cut_of, divisible_by, layouts, recomputations, regime_of, workloads
from hemostat.plan.families import Decoder, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.recipe.batch import split_batch


def test_every_layout_uses_all_devices_within_the_limits_of_the_model(tiny_profile):
    cluster = Cluster.read("16xA100-40GB")
    found = list(layouts(tiny_profile, cluster, 64))
    assert {layout.num_ranks for layout in found} == {16}
    assert {layout.tp for layout in found} == {1, 2, 4}  # four heads
    assert {layout.pp for layout in found} == {1, 2, 4}  # four blocks
    assert {layout.schedule for layout in found if layout.pp == 2} == {"1f1b", "zero_bubble", "interleaved"}
    assert {layout.schedule for layout in found if layout.pp == 4} == {"1f1b", "zero_bubble"}  # four blocks
    assert {layout.fsdp for layout in found if layout.tp == layout.pp == 1} == {1, 2, 4, 8, 16}
    assert len(set(found)) == len(found)


def test_shards_fill_nodes_or_divide_one(tiny_profile):
    found = list(layouts(tiny_profile, Cluster.read("48xA100-40GB"), 64))
    assert {layout.fsdp for layout in found if layout.tp == layout.pp == 1} == {1, 2, 4, 8, 16, 24, 48}


def test_every_number_of_stages_that_the_blocks_allow(story_profile):
    found = list(layouts(story_profile, Cluster.read("8xA100-40GB"), 64))
    stages = {pp: {each.stages_per_rank for each in found if each.pp == pp} for pp in (2, 4, 8)}
    assert stages == {2: {1, 2, 4, 8}, 4: {1, 2, 4}, 8: {1, 2}}  # 24 blocks
    assert not any(each.schedule == "gpipe" for each in found)


def test_no_data_rank_is_without_a_sample(tiny_profile):
    found = list(layouts(tiny_profile, Cluster.read("8xA100-40GB"), 2))
    assert found and {layout.num_data_ranks for layout in found} <= {1, 2}


def test_tensor_parallelism_divides_heads_and_widths(tiny_profile):
    assert divisible_by(tiny_profile) == 4


def test_heads_of_keys_that_several_queries_read_are_not_torn_apart():
    sizes = {"num_layers": 2, "hidden": 64, "num_heads": 8, "head_width": 8, "ffn": 256, "vocab": 1000}
    plain, grouped = (
        decoder_profile(Decoder(num_kv_heads=number, num_tokens=128, **sizes)) for number in (8, 2)
    )
    assert (divisible_by(plain), divisible_by(grouped)) == (8, 2)
    found = layouts(grouped, Cluster.read("8xA100-40GB"), 64)
    assert {layout.tp for layout in found} == {1, 2}
    scores = [[product.flop for product in profile.parts[1].products[1:3]] for profile in (plain, grouped)]
    assert scores[0] == scores[1]


def test_micro_batches_and_accumulation_make_the_global_batch():
    layout = Layout(dp=4)
    found = [(work.micro_batch, work.accumulation) for work in workloads(layout, 48, "adamw", "bf16")]
    assert found == [(1, 12), (2, 6), (4, 3), (6, 2), (12, 1)]
    assert [each.recompute for each in recomputations(layout)] == ["none", "selective", "full"]


@pytest.mark.parametrize("num_ranks", [1, 3, 8])
def test_a_batch_is_cut_as_training_cuts_it(num_ranks):
    for global_batch in (8, 13, 100, 122, 976):
        for most in (1, 2, 7, 16, 1000):
            train = split_batch(
                global_batch, num_ranks=num_ranks, global_batch=global_batch, micro_batch=most
            )
            found = cut_of(Layout(dp=num_ranks), global_batch, most)
            assert found == (train.micro_batch, train.accumulation)
    with pytest.raises(FieldError, match="global_batch=2: leaves some"):
        cut_of(Layout(fsdp=3), 2, 1)


@pytest.mark.parametrize(
    ("layout", "accumulation", "per_param"),
    [(Layout(dp=2), 1, 16), (Layout(dp=2), 2, 20), (Layout(), 2, 16), (Layout(fsdp=2), 2, 16)],
)
def test_bytes_per_parameter_are_those_that_the_trainer_holds(layout, accumulation, per_param):
    """bench/layouts.py: under dp with accumulation the gradients lie in memory twice."""
    regime = regime_of(layout, accumulation=accumulation)
    held = regime.weight_bytes + regime.grad_bytes + regime.optimizer_bytes + regime.bucket_bytes
    assert held == per_param and (regime.zero_stage == 3) is (layout.fsdp > 1)


def test_moments_of_other_optimizers():
    assert regime_of(Layout(), "sgd").optimizer_bytes == 4 and regime_of(Layout(), "sgd").step_bytes == 0
    with pytest.raises(UnknownNameError, match="adamw"):
        regime_of(Layout(), "adamv")
