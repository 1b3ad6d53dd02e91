"""Bytes per parameter of the ways of training, as their papers count them."""

from __future__ import annotations

import pytest

from hemostat.plan.workload import REGIMES, Regime

NAMED = {regime.name: regime for regime in REGIMES}


def state_bytes(regime: Regime) -> float:
    return regime.weight_bytes + regime.grad_bytes + regime.optimizer_bytes


@pytest.mark.parametrize(
    ("name", "total"),
    [("fp32", 16), ("autocast", 16), ("fsdp", 16), ("mixed", 16), ("bf16", 8), ("megatron", 18)],
)
def test_adam_holds_so_many_bytes_per_parameter(name, total):
    """ZeRO, section 3.1: 16 with K = 12; Megatron-LM, theoretical_memory_usage.py: 18 with fp32 gradients."""
    assert state_bytes(NAMED[name]) == total


def test_a_foreach_adamw_has_one_list_of_the_parameters_size_in_its_step():
    """Source: 32.15 GB for 3.2 billion parameters in bf16 on an A6000 (PyPI vramcalc 0.1.2): ten bytes each."""
    bf16 = NAMED["bf16"]
    assert state_bytes(bf16) + bf16.step_bytes == 10
    assert NAMED["fp32"].step_bytes == 4


def test_only_megatron_holds_gradients_between_steps_and_spare_ones():
    assert {name for name, regime in NAMED.items() if regime.holds_grads} == {"megatron"}
    assert {name for name, regime in NAMED.items() if regime.engine == "megatron"} == {"megatron"}
