"""Configs of real models give their parameters; what is missing or unknown is named."""

from __future__ import annotations

import json

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.families import decoder_of, read_config

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 16,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
QWEN = {
    "model_type": "qwen2",
    "num_hidden_layers": 28,
    "hidden_size": 1536,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "intermediate_size": 8960,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
NEOX = {
    "model_type": "gpt_neox",
    "num_hidden_layers": 24,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 50304,
    "max_position_embeddings": 2048,
}
QWEN3 = {
    "model_type": "qwen3",
    "num_hidden_layers": 28,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": True,
}
MPT = {
    "model_type": "mpt",
    "n_layers": 24,
    "d_model": 2048,
    "n_heads": 16,
    "vocab_size": 50368,
    "max_seq_len": 2048,
}


@pytest.mark.parametrize(
    ("config", "num_params"),
    # published: Llama-3.2-1B, Qwen2.5-1.5B, Pythia-410M, Qwen3-0.6B
    [(LLAMA, 1_235_814_400), (QWEN, 1_543_714_304), (NEOX, 405_334_016), (QWEN3, 596_049_920)],
)
def test_a_config_gives_the_parameters_of_its_model(config, num_params):
    assert decoder_of(config).num_params == num_params


def test_an_mpt_has_positions_that_are_computed_and_a_shared_table():
    decoder = decoder_of(MPT)
    assert (decoder.is_tied, decoder.is_gated, decoder.ffn, decoder.num_positions) == (True, False, 8192, 0)


def test_the_length_of_a_sample_can_be_chosen():
    assert decoder_of(LLAMA).num_tokens == 131072
    assert decoder_of(LLAMA, 2048).num_tokens == 2048
    with pytest.raises(FieldError, match="num_tokens=0"):
        decoder_of(LLAMA, 0)


def test_a_width_of_the_heads_need_not_divide_the_hidden_size():
    assert decoder_of(LLAMA | {"hidden_size": 1000, "head_dim": 64}).head_width == 64


def test_an_unknown_family_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"model_type='lama'.*Did you mean 'llama'.*mistral"):
        decoder_of(LLAMA | {"model_type": "lama"})
    for config, said in (({}, "None"), ({"model_type": ["llama"]}, r"\['llama'\]")):
        with pytest.raises(UnknownNameError, match=f"model_type=[\"']{said}[\"']"):
            decoder_of(config)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {key: value for key, value in LLAMA.items() if key != "hidden_size"},
            "hidden_size=None: is missing",
        ),
        (LLAMA | {"hidden_size": "wide"}, "hidden_size='wide': is not a whole number"),
        (LLAMA | {"vocab_size": -3}, "vocab=-3: must be 1 or more"),
        ([LLAMA], "config='list': is not a table"),
        (LLAMA | {"num_attention_heads": 0}, "num_attention_heads=0: does not divide"),
        (LLAMA | {"hidden_size": 1000, "num_attention_heads": 16}, "num_attention_heads=16: does not divide"),
        (LLAMA | {"num_key_value_heads": 0}, "num_kv_heads=0: must be 1 or more"),
        (LLAMA | {"head_dim": "64 wide"}, "head_dim='64 wide': is not a whole number"),
        (LLAMA | {"head_dim": "64"}, "head_dim='64': is not a whole number"),
        (LLAMA | {"head_dim": -64}, "head_width=-64: must be 1 or more"),
        (LLAMA | {"intermediate_size": 1 << 50}, "ffn=1125899906842624: is larger than"),
        (MPT | {"expansion_ratio": "x"}, "expansion_ratio='x': is not a whole number"),
        (MPT | {"expansion_ratio": [4]}, "expansion_ratio=[4]: is not a whole number"),
        (MPT | {"max_seq_len": None}, "max_seq_len=None: is missing"),
        (LLAMA | {"tie_word_embeddings": "false"}, "tie_word_embeddings='false': is neither"),
    ],
)
def test_what_is_wrong_in_a_config_is_named(config, said):
    with pytest.raises(FieldError) as caught:
        decoder_of(config)
    assert said in str(caught.value)


def test_a_config_is_read_from_a_file(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(LLAMA))
    assert read_config(path) == LLAMA
    for text, said in (("{", "is not JSON"), ("[1]", "is no table of names"), ("[" * 100_000, "is not JSON")):
        path.write_text(text)
        with pytest.raises(FieldError, match=said):
            read_config(path)
    with pytest.raises(FieldError, match="cannot be read"):
        read_config(tmp_path / "absent.json")
