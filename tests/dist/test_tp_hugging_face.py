"""Decoders of Hugging Face, their matrices shared: the same weights and norms as one process (float64)."""

from __future__ import annotations

import pytest
import shared_decoder
from shared_decoder import HUGGING_FACE, same, trained
from torch import nn

pytestmark = pytest.mark.slow
pytest.importorskip("transformers")


@pytest.mark.parametrize(("sequence", "loss"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("kind", HUGGING_FACE)
def test_two_ranks_equal_one_process(ranks, kind, sequence, loss):
    alone = trained(kind, 7)
    results = ranks(2, trained, kind, 7, {"tp": 2}, sequence, loss)
    same(results, alone)
    assert results[0]["shared"][0] == (sequence and kind != "gpt2")


def beside_fsdp(kind: str, blocks: str) -> dict[str, object]:
    """`trained` finds the blocks of its own decoder by another name."""
    original = shared_decoder.make

    def renamed(kind: str) -> tuple[nn.Module, dict[str, str]]:
        model, plan = original(kind)
        object.__setattr__(model, "blocks", model.get_submodule(blocks))
        return model, plan

    shared_decoder.make = renamed
    try:
        return trained(kind, 7, {"dp": 1, "fsdp": 2, "tp": 2})
    finally:
        shared_decoder.make = original


@pytest.mark.parametrize(("kind", "blocks"), [("qwen3", "model.layers"), ("gpt2", "transformer.h")])
def test_beside_fsdp(ranks, kind, blocks):
    same(ranks(4, beside_fsdp, kind, blocks), trained(kind, 7))
