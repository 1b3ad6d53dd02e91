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


def read_config(path: str | Path) -> dict[str, Any]:
    """The values of a config.json on the disk.

    Args:
        path: of the file.

    Raises:
        FieldError: no such file, no JSON, or no table of names.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FieldError(
            "model", str(path), f"cannot be read ({error.strerror})", "Check the path."
        ) from None
    except (ValueError, RecursionError) as error:
        raise FieldError("model", str(path), f"is not JSON ({error})", "Give a config.json.") from None
    if not isinstance(found, dict):
        raise FieldError("model", str(path), "is no table of names", "Give a Hugging Face config.json.")
    return found


def decoder_of(config: Mapping[str, Any], num_tokens: int | None = None, name: str = "") -> Decoder:
    """A decoder from the values of a config.json.

    Args:
        config: its values; `model_type` names the family.
        num_tokens: of one sample; None: the most that the model has positions for.
        name: of the model; empty: the family's.

    Raises:
        FieldError: a size is missing or no whole number, or the heads do not divide the hidden size.
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
    if not isinstance(family, str) or family not in FAMILIES:
        raise UnknownNameError("model_type", str(family), FAMILIES)
    names, kind, is_tied = FAMILIES[family]
    sizes = {ours: _whole(config, theirs) for ours, theirs in names.items() if config.get(theirs) is not None}
    for ours in ("num_layers", "hidden", "num_heads", "vocab"):
        if ours not in sizes:
            raise FieldError(
                names[ours], None, f"is missing from the config of a {family}", "Write its number."
            )
    block = {key: value for key, value in kind.items() if key != "has_positions"}
    positions = sizes.get("num_tokens", 0)
    if num_tokens is None and not positions:
        raise FieldError(
            names["num_tokens"], None, f"is missing from the config of a {family}", "Give plan.sample_tokens."
        )
    sizes.setdefault("num_kv_heads", sizes["num_heads"])
    sizes.setdefault("ffn", _ratio(config) * sizes["hidden"])
    sizes["num_tokens"] = positions if num_tokens is None else num_tokens
    values: dict[str, Any] = {**block, **sizes}
    return Decoder(
        name=name or family,
        head_width=_head_width(config, sizes["hidden"], (names["num_heads"], sizes["num_heads"])),
        num_positions=positions if kind.get("has_positions") else 0,
        is_tied=_is_tied(config, is_tied),
        **values,
    )


def _head_width(config: Mapping[str, Any], hidden: int, heads: tuple[str, int]) -> int:
    """As the config says it, else what each of the heads has of the hidden size, all of them alike."""
    name, num_heads = heads
    if config.get("head_dim") is not None:
        return _whole(config, "head_dim")
    if num_heads < 1 or hidden % num_heads:
        raise FieldError(
            name, num_heads, f"does not divide the hidden size {hidden:,}", "Write the model's own number."
        )
    return hidden // num_heads


def _ratio(config: Mapping[str, Any]) -> int:
    """Inner width of the MLP over the width of the blocks, where the config gives no inner width."""
    return 4 if config.get("expansion_ratio") is None else _whole(config, "expansion_ratio")


def _is_tied(config: Mapping[str, Any], usual: bool) -> bool:
    found = config.get("tie_word_embeddings")
    if not isinstance(found, bool | None):
        raise FieldError("tie_word_embeddings", found, "is neither true nor false", "Write true or false.")
    return usual if found is None else found


def _whole(config: Mapping[str, Any], name: str) -> int:
    try:
        return msgspec.convert(config[name], int)
    except msgspec.ValidationError:
        raise FieldError(
            name, config[name], "is not a whole number", "Write the model's own number."
        ) from None
