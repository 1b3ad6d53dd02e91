"""Bytes of model states against the tables of the ZeRO paper."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.plan.layout import Layout
from hemostat.plan.parallel.dp import num_shares, states
from hemostat.plan.workload import REGIMES

REGIME = {regime.name: regime for regime in REGIMES}


def mixed(stage: int):
    return msgspec.structs.replace(REGIME["mixed"], zero_stage=stage)


@pytest.mark.parametrize(
    ("stage", "gigabytes"),
    # Rajbhandari et al. 2020, table 1, 7.5 billion parameters on 64 devices; without ZeRO 120
    [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)],
)
def test_model_states_of_seven_and_a_half_billion_parameters(stage, gigabytes):
    assert states(mixed(stage), Layout(dp=64), 7.5e9).total / 1e9 == pytest.approx(gigabytes, rel=0.005)


@pytest.mark.parametrize(
    ("stage", "billions"),
    # table 2: the largest model that 32 GB hold, by model-parallel degree 1 on 64 devices
    [(0, 2), (1, 7.6), (2, 14.4), (3, 128)],
)
def test_the_largest_model_of_a_device_with_32_gigabytes(stage, billions):
    assert 32 / states(mixed(stage), Layout(dp=64), 1).total == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("name", "num_bytes"), [("fp32", 16), ("autocast", 16), ("mixed", 16), ("bf16", 8), ("megatron", 18)]
)
def test_bytes_of_a_parameter_on_one_device(name, num_bytes):
    assert states(REGIME[name], Layout(), 1).total == num_bytes


def test_fsdp_divides_everything_and_its_copies_nothing():
    assert num_shares(REGIME["fsdp"], Layout(fsdp=8)) == (8, 8, 8)
    assert num_shares(REGIME["fsdp"], Layout(fsdp=8, dp=4)) == (8, 8, 8)
    assert num_shares(REGIME["autocast"], Layout(fsdp=8)) == (8, 8, 8)


def test_frozen_parameters_have_no_gradient_and_no_optimizer_state():
    found = states(REGIME["autocast"], Layout(), 100, num_frozen_params=90)
    assert tuple(found) == (400, 40, 80)
