"""What one position of a pipeline carries."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.plan.families import Decoder, decoder_profile, lora_profile
from hemostat.plan.layout import Layout
from hemostat.plan.load import Load
from hemostat.plan.parallel.pp import held_by
from hemostat.plan.workload import REGIMES, Workload

REGIME = {regime.name: regime for regime in REGIMES}
SMALL = Decoder(
    num_layers=8,
    hidden=64,
    num_heads=4,
    num_kv_heads=4,
    head_width=16,
    ffn=256,
    vocab=1000,
    num_tokens=32,
    is_tied=True,
)
SENT = 2 * 32 * 64  # bytes of what passes between stages, for one sample
SAMPLE = 8 * 32  # bytes of its tokens


def loads(layout: Layout, profile=None, **work) -> list[Load]:
    work = Workload(**({"micro_batch": 1, "accumulation": 8} | work))
    profile = profile or decoder_profile(SMALL)
    return [Load(profile, held, layout, work) for held in held_by(profile, layout, work.accumulation)]


def test_a_tied_table_is_held_once_on_one_process_and_twice_in_a_pipeline():
    (whole,) = loads(Layout())
    assert whole.num_params == SMALL.num_params
    first, last = loads(Layout(pp=2))
    assert first.num_params + last.num_params == SMALL.num_params + 1000 * 64


def test_frozen_parameters_are_not_trained_also_where_a_table_is_shared():
    profile = lora_profile(SMALL, 4)
    (load,) = loads(Layout(), profile)
    assert load.num_params == profile.num_params
    assert load.num_trained == sum(
        part.count * (part.num_params - part.num_frozen_params) for part in profile.parts
    )
    assert load.tail_trained == 0


def test_torch_keeps_tensors_at_the_borders_of_stages_and_megatron_does_not():
    first, *_, last = loads(Layout(pp=4))
    # results of 4 in flight, and a buffer for each of 8 gradients; samples of 4 that are not in flight yet
    assert first.lasting()["pipeline buffers"] == SENT * (4 + 8) + SAMPLE * 4
    # 7 inputs to come; logits of 7 micro-batches in the compute dtype; samples of all of them
    assert last.lasting()["pipeline buffers"] == SENT * 7 + 7 * 4 * 32 * 1000 + SAMPLE * 8
    megatron = loads(Layout(pp=4), regime=REGIME["megatron"])[0].lasting()
    assert "pipeline buffers" not in megatron
    assert megatron["spare gradients"] == 2 * SMALL.num_matrix_params


def test_a_shared_out_stage_collects_whole_gradients_and_has_no_shares_of_them_yet():
    first = loads(Layout(pp=2, fsdp=2), regime=REGIME["fsdp"])[0]
    assert first.is_deferred
    assert first.in_passes()["whole gradients"] == 4 * first.num_params
    assert "whole gradients" not in first.lasting()
    assert (first.gradients(first.num_trained), first.on_their_way(5, 5, 5)) == (0, 0)


def test_gradients_that_wait_lie_beside_those_that_are_summed():
    (load,) = loads(Layout(fsdp=4), regime=REGIME["fsdp"])
    assert load.summed(8, 3) == (2 + 4) * 8 + 2 * 3


@pytest.mark.parametrize(("zero_stage", "block"), [(0, 0), (1, 0), (2, 2)])
def test_zero_2_holds_a_block_of_gradients_before_it_shares_them_out(zero_stage, block):
    regime = msgspec.structs.replace(REGIME["mixed"], zero_stage=zero_stage)
    (load,) = loads(Layout(dp=4), regime=regime)
    assert load.on_their_way(7, 7, 0) == block * 7


def test_streams_of_fsdp_keep_gradients_that_are_freed():
    (once,) = loads(Layout(fsdp=2), accumulation=1, regime=REGIME["fsdp"])
    (often,) = loads(Layout(fsdp=2), regime=REGIME["fsdp"])
    assert once.aside_bytes - often.aside_bytes == once.states.gradients
    assert loads(Layout(dp=2))[0].aside_bytes == 0


def test_sequence_parallelism_gathers_in_backward():
    (alone,) = loads(Layout(tp=2, sequence_parallel=False))
    (shared,) = loads(Layout(tp=2))
    assert shared.kinds[0].passing - alone.kinds[0].passing == 2 * SENT


def test_weight_parts_that_are_put_off_hold_gradients_of_outputs():
    """bench/layouts.py counted 142.6 MB on the second of two ranks under zero_bubble, and 51.8 MB under 1f1b."""
    last = loads(Layout(pp=2, schedule="zero_bubble"))[-1]
    assert last.in_passes()["gradients that wait"] == last.blocks_kept + last.tail_kept
    assert loads(Layout(pp=2))[-1].in_passes()["gradients that wait"] == 0
