"""Bytes that a block keeps, against the formulas of papers and against counted tensors."""

from __future__ import annotations

import msgspec
import pytest

from hemostat.plan.families import LOSSES, SOFTWARE, Decoder, decoder_profile
from hemostat.plan.layout import Layout
from hemostat.plan.parallel.tp import local_bytes

# 22 billion parameters of Korthikanti et al. 2022, table 3
GPT_22B = Decoder(
    num_layers=48,
    hidden=6144,
    num_heads=64,
    num_kv_heads=64,
    head_width=96,
    ffn=4 * 6144,
    vocab=51200,
    num_tokens=2048,
    is_gated=False,
    dropout=0.1,
)
# Llama-like, ffn 3.5 times hidden, a quarter of the heads has keys and values
LLAMA = Decoder(
    num_layers=4,
    hidden=256,
    num_heads=4,
    num_kv_heads=1,
    head_width=64,
    ffn=896,
    vocab=1000,
    num_tokens=128,
)
UNIT = 2 * 128 * 256  # bytes of one hidden tensor in bf16


@pytest.mark.parametrize(
    ("is_shared", "selective", "whole", "divided"),
    [(False, False, 10, 24), (True, False, 0, 34), (False, True, 10, 24), (True, True, 0, 34)],
)
def test_a_plain_block_keeps_what_the_paper_says(is_shared, selective, whole, divided):
    """Korthikanti et al. 2022, section 4.2 and table 2: sbh (10 + 24/t + 5as/(ht)) and so on."""
    block = decoder_profile(GPT_22B, msgspec.structs.replace(SOFTWARE["megatron"], is_flash=False)).parts[1]
    kept = tuple(each for each in block.kept if not (selective and each.is_cheap))
    found = local_bytes(kept, Layout(tp=8, sequence_parallel=is_shared))
    scores = 0 if selective else 5 * 64 * 2048 / 6144
    assert found == pytest.approx(2048 * 6144 * (whole + divided / 8 + scores / 8))


@pytest.mark.parametrize(
    ("software", "units"),
    # counted with saved_tensors_hooks on LlamaModel of transformers 5.24, sdpa: 24.5 without the log-sum-exp; under
    # autocast 29.5 without the copies of weights; both with keys and values that are not repeated
    [("transformers", 24.5), ("transformers autocast", 29.5)],
)
def test_a_hugging_face_block_keeps_what_was_counted(software, units):
    used = msgspec.structs.replace(SOFTWARE[software], repeats_keys=False)
    block = decoder_profile(LLAMA, used).parts[1]
    kept = sum(each.num_bytes for each in block.kept if "statistics" not in each.name and not each.is_extra)
    assert kept / UNIT == pytest.approx(units)


def test_every_second_product_is_kept():
    """torchtitan's selective-op on Llama-8B: 7.75 hidden tensors, block input and attention's output with them."""
    block = decoder_profile(LLAMA, "torchtitan").parts[1]
    kept = sum(each.num_bytes for each in block.kept if not each.is_cheap and "statistics" not in each.name)
    assert kept / UNIT == pytest.approx(7.75)


def test_a_loss_has_fourteen_bytes_a_logit_unless_it_is_fused():
    eager, fused = LOSSES["eager"], LOSSES["fused"]
    assert eager.kept_bytes + eager.passing_bytes == 14
    assert eager.kept_bytes + eager.forward_passing_bytes == 10
    assert fused.kept_bytes + fused.passing_bytes == 2
    head = decoder_profile(LLAMA).parts[-1]
    assert [each.num_bytes for each in head.kept if each.share == "loss"] == [6 * 128 * 1000]


@pytest.mark.parametrize(("software", "units"), [("transformers", 3 * 1.25), ("torch", 1.25)])
def test_norms_of_the_heads_are_kept_besides(software, units):
    plain, normed = (
        decoder_profile(msgspec.structs.replace(LLAMA, has_head_norms=has), software).parts[1].kept_bytes
        for has in (False, True)
    )
    assert (normed - plain) / UNIT == units
