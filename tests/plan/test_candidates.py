"""Legal layouts: every one is a product of the devices, and none cuts what cannot be cut."""

from __future__ import annotations

import pytest

from hemostat.errors import UnknownNameError
from hemostat.plan.candidates import divisible_by, layouts, recomputations, regime_of, workloads
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout


def test_every_layout_uses_all_devices_within_the_limits_of_the_model(tiny_profile):
    cluster = Cluster.read("16xA100-40GB")
    found = list(layouts(tiny_profile, cluster, 64))
    assert {layout.num_ranks for layout in found} == {16}
    assert {layout.tp for layout in found} == {1, 2, 4}  # four heads
    assert {layout.pp for layout in found} == {1, 2, 4}  # four blocks
    assert {layout.schedule for layout in found if layout.pp == 2} == {"1f1b", "interleaved"}
    assert {layout.schedule for layout in found if layout.pp == 4} == {"1f1b"}
    assert len({(str(each), each.schedule, each.reshard) for each in found}) == len(found)


def test_no_data_rank_is_without_a_sample(tiny_profile):
    found = list(layouts(tiny_profile, Cluster.read("8xA100-40GB"), 2))
    assert found and {layout.num_data_ranks for layout in found} <= {1, 2}


def test_tensor_parallelism_divides_heads_and_widths(tiny_profile):
    assert divisible_by(tiny_profile) == 4


def test_micro_batches_and_accumulation_make_the_global_batch():
    layout = Layout(dp=4)
    found = [(work.micro_batch, work.accumulation) for work in workloads(layout, 48, "adamw", "bf16")]
    assert found == [(1, 12), (2, 6), (4, 3), (8, 2)]
    assert [each.recompute for each in recomputations(layout)] == ["none", "selective", "full"]


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
