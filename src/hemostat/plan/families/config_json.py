"""A Hugging Face config.json as a `Decoder`; the families that are known, and how each one names its sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.families.decoder import Decoder

_LLAMA: Final = {
    "num_layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "num_tokens": "max_position_embeddings",
}
_GPT2: Final = {
    "num_layers": "n_layer",
    "hidden": "n_embd",
    "num_heads": "n_head",
    "ffn": "n_inner",
    "vocab": "vocab_size",
    "num_tokens": "n_positions",
}
_MPT: Final = {
    "num_layers": "n_layers",
    "hidden": "d_model",
    "num_heads": "n_heads",
    "vocab": "vocab_size",
    "num_tokens": "max_seq_len",
}
_PLAIN: Final = {"is_gated": False, "has_norm_bias": True}
# family -> (how it names its sizes, what its blocks are like, whether embedding and head are one where it is silent)
FAMILIES: Final[dict[str, tuple[dict[str, str], dict[str, Any], bool]]] = {
    "llama": (_LLAMA, {}, False),
    "mistral": (_LLAMA, {}, False),
    "qwen2": (_LLAMA, {"has_bias": "qkv"}, False),
    "qwen3": (_LLAMA, {"has_head_norms": True}, False),
    "gpt2": (_GPT2, {**_PLAIN, "has_bias": True, "has_positions": True}, True),
    "gpt_neox": (_LLAMA, {**_PLAIN, "has_bias": True}, False),
    "mpt": (_MPT, {"is_gated": False}, True),
    "megatron-gpt2": (_GPT2, {**_PLAIN, "has_bias": True, "has_positions": True}, True),
}


def read_config(path: str | Path, num_tokens: int | None = None) -> Decoder:
    """A decoder from a config.json on the disk.

    Args:
        path: of the file.
        num_tokens: of one sample; None: the most that the model has positions for.

    Raises:
        FieldError: no such file, no JSON, or a size is missing.
        UnknownNameError: not one of the known families.
    """
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FieldError(
            "model", str(path), f"cannot be read ({error.strerror})", "Check the path."
        ) from None
    except ValueError as error:
        raise FieldError("model", str(path), f"is not JSON ({error})", "Give a config.json.") from None
    return decoder_of(config, num_tokens, name=Path(path).stem)


def decoder_of(config: Mapping[str, Any], num_tokens: int | None = None, name: str = "") -> Decoder:
    """A decoder from the values of a config.json.

    Args:
        config: its values; `model_type` names the family.
        num_tokens: of one sample; None: the most that the model has positions for.
        name: of the model; empty: the family's.

    Raises:
        FieldError: a size is missing or no whole number.
        UnknownNameError: not one of the known families.

    Source: the configuration classes of transformers 4.57 (`LlamaConfig`, `Qwen2Config`, `GPT2Config`,
        `GPTNeoXConfig`, `MptConfig`).

    Examples:
        >>> gpt2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257,
        ...         "n_positions": 1024}
        >>> decoder_of(gpt2).num_params
        124439808
    """
    if not isinstance(config, Mapping):
        raise FieldError("config", type(config).__name__, "is not a table of names", "Give a config.json.")
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UnknownNameError("model_type", str(family), FAMILIES)
    names, kind, is_tied = FAMILIES[family]
    sizes = {ours: _whole(config, theirs) for ours, theirs in names.items() if config.get(theirs) is not None}
    for ours in ("num_layers", "hidden", "num_heads", "vocab"):
        if ours not in sizes:
            raise FieldError(
                names[ours], None, f"is missing from the config of a {family}", "Write its number."
            )
    hidden, heads = sizes["hidden"], sizes["num_heads"]
    block = {key: value for key, value in kind.items() if key != "has_positions"}
    positions = sizes.get("num_tokens", 0)
    sizes.setdefault("num_kv_heads", heads)
    sizes.setdefault("ffn", int(config.get("expansion_ratio", 4)) * hidden)
    sizes["num_tokens"] = num_tokens or positions
    values: dict[str, Any] = {**block, **sizes}
    return Decoder(
        name=name or family,
        head_width=config.get("head_dim") or hidden // heads,
        num_positions=positions if kind.get("has_positions") else 0,
        is_tied=bool(config.get("tie_word_embeddings", is_tied)),
        **values,
    )


def _whole(config: Mapping[str, Any], name: str) -> int:
    try:
        return msgspec.convert(config[name], int)
    except msgspec.ValidationError:
        raise FieldError(
            name, config[name], "is not a whole number", "Write the model's own number."
        ) from None
