"""A plan matched with a model: what is cut, and what is refused before any rank meets another."""

from __future__ import annotations

import pytest
from shared_decoder import PLAN, Decoder, Mlp, make
from torch import nn

from hemostat.errors import FieldError, UnknownNameError
from hemostat.train.parallel.tp_plan import features, head_counts, is_conv1d, planned


def test_names_attentions_and_what_gathers():
    found = planned(Decoder(), PLAN, 2)
    assert found.named("vocab_in") == ["embedding"]
    norms = {f"blocks.{number}.{norm}" for norm in ("norm", "mlp_norm") for number in (0, 1)}
    assert set(found.named("sequence")) == {"norm"} | norms
    assert found.attentions == ["blocks.0.attention", "blocks.1.attention"]
    assert sorted(found.gathers) == sorted([*found.attentions, "blocks.0.mlp", "blocks.1.mlp"])
    assert found.strays == []


def test_a_star_stands_for_one_part():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    assert planned(model, {"*": "colwise", "0": "sequence"}, 2).words == {"0": "sequence", "1": "colwise"}
    assert planned(model, {"*.0": "colwise"}, 2).words == {"0.0": "colwise"}


def test_a_block_with_whole_matrices_does_not_gather():
    model, plan = make("bytegpt")
    found = planned(model, plan, 2)
    assert found.gathers == []
    assert found.attentions == []
    assert found.strays == [
        "last_bytes.table",
        *(f"blocks.{n}.{part}" for n in (0, 1) for part in ("qkv", "out")),
    ]


def refused(change: str, size: int) -> str:
    model, plan = make("tied")
    if change == "fused":
        model.blocks[0].attention.query = nn.Linear(16, 48)
    if change == "odd width":
        model.blocks[1].mlp = Mlp(15, True)
    if change == "wrong kind":
        plan["blocks.*.mlp"] = "colwise"
    if change == "nothing":
        plan = {"layers.*.up": "colwise", "norm": "sequence"}
    if change == "word":
        plan["norm"] = "columnwise"
    if change == "renorm":
        model.embedding.max_norm = 1.0
    if change == "heads":
        model = Decoder((2, 2))
    with pytest.raises((FieldError, UnknownNameError)) as caught:
        planned(model, plan, size)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "size", "words"),
    [
        ("fused", 2, "tensor_plan.blocks.0.attention.query='colwise': has 48 outputs, and no rowwise matrix"),
        ("odd width", 2, "layout.tp=2: does not divide the 45 outputs of blocks.1.mlp.up"),
        ("wrong kind", 2, "tensor_plan.blocks.0.mlp='colwise': is for a plain torch.nn.Linear"),
        ("nothing", 2, "layout.tp=2: the plan names no matrix of Decoder"),
        ("word", 2, "tensor_plan.norm='columnwise': is not known. Did you mean 'colwise'?"),
        ("renorm", 2, "tensor_plan.embedding='vocab_in': is for a plain torch.nn.Embedding"),
        ("heads", 4, "layout.tp=4: does not divide the 2 heads (num_heads) of blocks.0.attention"),
    ],
)
def test_what_cannot_be_shared(change, size, words):
    assert refused(change, size).startswith(words)


def test_where_heads_are_counted():
    attention = Decoder((4, 2)).blocks[0].attention
    assert [(name, value) for _, name, value in head_counts(attention)] == [
        ("num_heads", 4),
        ("num_kv_heads", 2),
    ]


@pytest.mark.slow
def test_the_transposed_layer_of_gpt2():
    layer = pytest.importorskip("transformers.pytorch_utils").Conv1D(6, 4)
    assert is_conv1d(layer)
    assert features(layer) == (4, 6)
    assert not is_conv1d(nn.Linear(4, 6))
