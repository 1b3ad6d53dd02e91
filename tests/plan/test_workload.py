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
