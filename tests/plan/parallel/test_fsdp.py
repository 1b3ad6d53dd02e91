"""What FSDP holds for a moment, in small whole numbers."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.plan.layout import Layout
from hemostat.plan.parallel.fsdp import (
    Units,
    aside_bytes,
    deferred_bytes,
    gathered_bytes,
    gathered_element_bytes,
    reduced_bytes,
    summed_bytes,
)
from hemostat.plan.workload import REGIMES

FSDP = REGIMES[2]
UNITS = Units(root=10, blocks=100, block=20)


def test_needed_blocks_and_the_root_are_gathered_or_everything():
    assert gathered_bytes(FSDP, Layout(fsdp=8), UNITS, 40) == 2 * (10 + 40)
    assert gathered_bytes(FSDP, Layout(fsdp=8, reshard=False), UNITS, 40) == 2 * (10 + 100)


def test_parameters_are_rounded_before_they_are_gathered_or_not():
    autocast = REGIMES[1]
    assert (gathered_element_bytes(FSDP), gathered_element_bytes(autocast)) == (2, 4)
    assert gathered_bytes(autocast, Layout(fsdp=8), UNITS, 40) == 4 * (10 + 40)


def test_a_blocks_gradient_and_the_copy_of_the_one_before():
    assert reduced_bytes(FSDP, 20, 0) == 20 * 2
    assert reduced_bytes(FSDP, 20, 30) == 20 * 2 + 30 * 4


def test_a_sum_has_a_copy_beside_the_gradients_and_then_the_share_beside_the_copy():
    assert summed_bytes(FSDP, 20, 4) == 20 * (2 + 4)
    copied = msgspec.structs.replace(FSDP, reduce_copy_bytes=4)
    assert summed_bytes(copied, 20, 4) == 20 * (4 + 4) + 20 * 4 / 4


def test_other_streams_keep_their_largest_result():
    assert aside_bytes(FSDP, UNITS, gradient_bytes=7) == 2 * 40 + 7
    assert aside_bytes(FSDP, Units(root=50, blocks=100, block=20), gradient_bytes=0) == 2 * 50


@pytest.mark.parametrize(("stages_per_rank", "num_micro_batches", "part"), [(1, 4, 1), (2, 4, 2), (2, 8, 1)])
def test_a_pipeline_collects_whole_gradients_of_the_stages_that_are_under_way(
    stages_per_rank, num_micro_batches, part
):
    layout = Layout(fsdp=2, pp=4, stages_per_rank=stages_per_rank)
    assert deferred_bytes(FSDP, layout, UNITS, num_micro_batches) == 4 * 110 / part
