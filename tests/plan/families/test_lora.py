"""Adapters: what is trained, and what frozen matrices no longer keep."""

from __future__ import annotations

import pytest

from hemostat.plan.families import Decoder, decoder_profile, lora_profile
from hemostat.plan.families.lora import adapter_params

LLAMA_1B = Decoder(
    num_layers=16,
    hidden=2048,
    num_heads=32,
    num_kv_heads=8,
    head_width=64,
    ffn=8192,
    vocab=128256,
    num_tokens=2048,
    is_tied=True,
)
UNIT = 2 * 2048 * 2048


def trained(profile) -> int:
    return sum(part.count * (part.num_params - part.num_frozen_params) for part in profile.parts)


def test_only_the_adapters_are_trained():
    """Rank 16 beside queries, keys, values and projection of Llama-3.2-1B: 3,407,872 parameters."""
    assert trained(lora_profile(LLAMA_1B, 16)) == 16 * adapter_params(LLAMA_1B, 16) == 3_407_872


@pytest.mark.parametrize(
    ("choice", "units"),
    # without the inputs of matrices (4 + 1 + 1); with three fp32 copies (6) and one of attention's output (2)
    [({}, -6 + 8), ({"is_cast": False}, -6 + 1), ({"is_cast": False, "is_quantised": True}, 1)],
)
def test_frozen_matrices_keep_no_input_and_adapters_do(choice, units):
    whole = decoder_profile(LLAMA_1B, "transformers").parts[1].kept_bytes
    assert (lora_profile(LLAMA_1B, 16, **choice).parts[1].kept_bytes - whole) / UNIT == pytest.approx(units)
