"""Parameters and products of decoders against published sizes, and what a bad size says."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.families import SOFTWARE, Decoder, decoder_profile

LLAMA_8B = Decoder(
    num_layers=32,
    hidden=4096,
    num_heads=32,
    num_kv_heads=8,
    head_width=128,
    ffn=14336,
    vocab=128256,
    num_tokens=8192,
)
GPT2 = Decoder(
    num_layers=12,
    hidden=768,
    num_heads=12,
    num_kv_heads=12,
    head_width=64,
    ffn=3072,
    vocab=50257,
    num_tokens=1024,
    is_gated=False,
    has_norm_bias=True,
    has_bias=True,
    num_positions=1024,
    is_tied=True,
)


def test_parameters_are_those_of_the_published_models():
    assert LLAMA_8B.num_params == 8_030_261_248
    assert GPT2.num_params == 124_439_808


@pytest.mark.parametrize("decoder", [LLAMA_8B, GPT2])
def test_a_profile_has_the_parameters_and_blocks_of_its_decoder(decoder):
    profile = decoder_profile(decoder)
    assert (profile.num_params, profile.num_blocks) == (decoder.num_params, decoder.num_layers)
    assert all(part.num_tp_params <= part.num_params for part in profile.parts)


def test_the_work_is_six_flop_per_parameter_and_token_and_that_of_attention():
    matrices = 32 * LLAMA_8B.num_matrix_params + 128256 * 4096
    attention = 6 * 32 * 8192 * 4096  # causal: 6 L s h per token, forward and backward
    assert decoder_profile(LLAMA_8B).flop == pytest.approx(8192 * (6 * matrices + attention))


def test_eager_attention_computes_and_keeps_the_scores():
    software = msgspec.structs.replace(SOFTWARE["torch"], is_flash=False)
    eager, flash = decoder_profile(GPT2, software).parts[1], decoder_profile(GPT2).parts[1]
    more = eager.kept_bytes - flash.kept_bytes
    assert more == 12 * 1024 * (5 * 1024 - 4)  # five bytes a score, and no log-sum-exp
    assert eager.products[1].flop == 2 * flash.products[1].flop


@pytest.mark.parametrize(
    ("change", "said"), [({"hidden": 0}, "hidden=0"), ({"num_kv_heads": 5}, "num_kv_heads=5")]
)
def test_a_size_that_cannot_be_is_named(change, said):
    sizes = {"num_layers": 2, "hidden": 64, "num_heads": 4, "num_kv_heads": 2, "head_width": 16} | change
    with pytest.raises(FieldError, match=said):
        Decoder(ffn=256, vocab=100, num_tokens=8, **sizes)


def test_unknown_software_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="torchtitan"):
        decoder_profile(GPT2, "torchtian")
