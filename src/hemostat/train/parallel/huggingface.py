"""Decoders of Hugging Face: how to tell them, what tensor parallelism can share of them, and their pipeline stages.

Tracing cannot follow their forward (caches, masks made from values, recorded outputs), so a stage repeats what it
does in training without a cache: embedding, positions, mask, blocks, last norm, head.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from hemostat.errors import TaskError

_HEADED_LLAMA: Final = {
    "model.embed_tokens": "vocab_in",
    "model.layers.*.input_layernorm": "sequence",
    "model.layers.*.self_attn.q_proj": "colwise",
    "model.layers.*.self_attn.k_proj": "colwise",
    "model.layers.*.self_attn.v_proj": "colwise",
    "model.layers.*.self_attn.o_proj": "rowwise",
    "model.layers.*.post_attention_layernorm": "sequence",
    "model.layers.*.mlp.gate_proj": "colwise",
    "model.layers.*.mlp.up_proj": "colwise",
    "model.layers.*.mlp.down_proj": "rowwise",
    "model.norm": "sequence",
    "lm_head": "vocab_out",
}
_NORMS_OF_HEADS: Final = {
    "model.layers.*.self_attn.q_norm": "heads",
    "model.layers.*.self_attn.k_norm": "heads",
}
# Attention stays whole: `c_attn` makes query, key and value in one matrix, and a share of its columns would be, say,
# all of the query and half of the key. With attention whole the positions are too, so no norm is "sequence".
_HEADED_GPT2: Final = {
    "transformer.wte": "vocab_in",
    "transformer.h.*.mlp.c_fc": "colwise",
    "transformer.h.*.mlp.c_proj": "rowwise",
    "lm_head": "vocab_out",
}


class Family(NamedTuple):
    """One kind of decoder.

    Attributes:
        name: `model_type` of its configuration.
        model: class with the head.
        inner: attribute that holds the model without the head.
        layers: name of the list of blocks.
        before: what the first stage holds, beside blocks.
        behind: what the last stage holds, beside blocks.
        everywhere: what every stage holds; it has no parameters.
    """

    name: str
    model: str
    inner: str
    layers: str
    before: tuple[str, ...]
    behind: tuple[str, ...]
    everywhere: tuple[str, ...] = ()

    def tensor_plan(self, model: nn.Module) -> Mapping[str, str]:
        """Module to style, with `*` for the number of a block; see parts.py."""
        if self.name == "gpt2":
            return _HEADED_GPT2
        return _HEADED_LLAMA | (_NORMS_OF_HEADS if self.name == "qwen3" else {})


def _like_llama(name: str, model: str) -> Family:
    return Family(
        name,
        model,
        inner="model",
        layers="model.layers",
        before=("model.embed_tokens",),
        behind=("model.norm", "lm_head"),
        everywhere=("model.rotary_emb",),
    )


FAMILIES: Final = {
    family.name: family
    for family in (
        _like_llama("llama", "LlamaForCausalLM"),
        _like_llama("mistral", "MistralForCausalLM"),
        _like_llama("qwen2", "Qwen2ForCausalLM"),
        _like_llama("qwen3", "Qwen3ForCausalLM"),
        Family(
            "gpt2",
            "GPT2LMHeadModel",
            inner="transformer",
            layers="transformer.h",
            before=("transformer.wte", "transformer.wpe", "transformer.drop"),
            behind=("transformer.ln_f", "lm_head"),
        ),
    )
}
_NAMED: Final = ("input_ids", "attention_mask", "position_ids", "token_type_ids")


def family_of(model: nn.Module) -> Family | None:
    """The kind of a decoder; None for other models, and where its forward is not that of transformers.

    Examples:
        >>> family_of(nn.Linear(2, 2)) is None
        True
    """
    for kind in type(model).__mro__:
        name = kind.__module__.removeprefix("transformers.models.").partition(".")[0]
        family = FAMILIES.get(name)
        if family is None or kind.__name__ != family.model or not kind.__module__.startswith("transformers."):
            continue
        inner = type(getattr(model, family.inner))
        own = type(model).forward is not vars(kind)["forward"] or inner.__module__ != kind.__module__
        return None if own else family
    return None


class DecoderStage:
    """What one stage of a decoder computes; `Stage` calls it with its tensors.

    Between stages travel the hidden state, the positions and, where one was given, the mask of padding.

    Args:
        family: of the model.
        config: of the model.
        blocks: number of the first block, and of the one behind the last.
        ends: whether it is the first stage, whether it is the last.
        inputs: names of the tensors that the first stage is given, in order.
    """

    def __init__(
        self,
        family: Family,
        config: Any,
        blocks: tuple[int, int],
        ends: tuple[bool, bool],
        inputs: Sequence[str],
    ) -> None:
        self._family, self._config, self._inputs = family, config, inputs
        self._blocks = range(*blocks)
        self._is_first, self._is_last = ends

    def names(self) -> list[str]:
        """Modules that the stage holds."""
        family = self._family
        held = [*family.everywhere, *(f"{family.layers}.{number}" for number in self._blocks)]
        return [*held, *(family.before * self._is_first), *(family.behind * self._is_last)]

    def __call__(self, stage: nn.Module, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The tensors for the next stage, or the logits."""
        if self._is_first:
            hidden, positions, mask = self._embed(stage, dict(zip(self._inputs, values, strict=True)))
        else:
            hidden, positions = values[:2]
            mask = values[2] if len(values) > 2 else None
        given = self._given_to_blocks(stage, hidden, positions, mask)
        for number in self._blocks:
            block = stage.get_submodule(f"{self._family.layers}.{number}")
            hidden = block(hidden, **given[self._kind(number)])
        if self._is_last:
            norm, head = self._family.behind
            return (stage.get_submodule(head)(stage.get_submodule(norm)(hidden)),)
        return (hidden, positions) if mask is None else (hidden, positions, mask)

    def _embed(self, stage: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
        ids, positions = inputs["input_ids"], inputs.get("position_ids")
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        table, *others = (stage.get_submodule(name) for name in self._family.before)
        hidden = table(ids)
        if others:  # GPT-2 adds its positions here
            position_table, dropout = others
            hidden = hidden + position_table(positions)
            if inputs.get("token_type_ids") is not None:
                hidden = hidden + table(inputs["token_type_ids"])
            hidden = dropout(hidden)
        return hidden, positions, inputs.get("attention_mask")

    def _kind(self, number: int) -> str:
        if self._family.name in ("qwen2", "qwen3"):
            return str(self._config.layer_types[number])
        slides = self._family.name == "mistral" and self._config.sliding_window is not None
        return "sliding_attention" if slides else "full_attention"

    def _given_to_blocks(
        self, stage: nn.Module, hidden: Tensor, positions: Tensor, mask: Tensor | None
    ) -> dict[str, dict[str, Any]]:
        """Keyword arguments of a block, by the kind of its attention."""
        # under sequence parallelism a rank has a part of the positions in `hidden`; masks are of all of them
        shape = hidden.shape[0], positions.shape[1], 1
        like = torch.empty((), dtype=hidden.dtype, device=hidden.device).expand(shape)
        shared: dict[str, Any] = {"position_ids": positions}
        for name in self._family.everywhere:
            shared["position_embeddings"] = stage.get_submodule(name)(like, positions)
        kinds = {self._kind(number) for number in self._blocks}
        # packed sequences are told by their positions, but only where the model would not make a cache
        packed = None if self._makes_cache(stage) else positions
        masks = {kind: _mask(kind, self._config, like, mask, packed) for kind in kinds}
        return {kind: {"attention_mask": masks[kind], **shared} for kind in kinds}

    def _makes_cache(self, stage: nn.Module) -> bool:
        block: Any = stage.get_submodule(f"{self._family.layers}.{self._blocks[0]}")
        checkpoints = block.gradient_checkpointing and block.training and torch.is_grad_enabled()
        return bool(self._config.use_cache) and not checkpoints


def _mask(
    kind: str, config: Any, like: Tensor, mask: Tensor | None, positions: Tensor | None
) -> Any:  # a tensor, a BlockMask, or None for plain causal attention
    making = import_module("transformers.masking_utils")
    make = {
        "full_attention": making.create_causal_mask,
        "sliding_attention": making.create_sliding_window_causal_mask,
    }[kind]
    known = inspect.signature(make).parameters
    cache = "cache" if "cache" in known else "past_key_values"
    given = {"inputs_embeds": like, "attention_mask": mask, "position_ids": positions, cache: None}
    return make(config=config, **given)


def input_names(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """What a decoder is given, in the order of `InputForm.tensors`.

    Raises:
        TaskError: an input that stages do not know, such as labels or embeddings.
    """
    positional = zip(inspect.signature(model.forward).parameters, args, strict=False)
    given = [name for name, value in (*positional, *sorted(kwargs.items())) if value is not None]
    known = _NAMED if family_of(model) == FAMILIES["gpt2"] else _NAMED[:-1]
    if not set(given) <= set(known) or "input_ids" not in given:
        raise TaskError(
            f"{type(model).__name__} is given {', '.join(given) or 'nothing'}, and its stages take input_ids and, if "
            f"need be, {', '.join(known[1:])}. Let split() return these, and the labels as the target."
        )
    return given


def output_of(model: nn.Module) -> Callable[[Tensor], Any]:
    """Gives logits the type in which the model returns them."""
    outputs = import_module("transformers.modeling_outputs")
    gpt2 = family_of(model) == FAMILIES["gpt2"]
    kind = outputs.CausalLMOutputWithCrossAttentions if gpt2 else outputs.CausalLMOutputWithPast
    return lambda logits: kind(logits=logits)


def check_decoder(model: nn.Module) -> None:
    """Refuse what the stages would compute otherwise than the model.

    Raises:
        TaskError: transformers is too old, or the configuration asks for what stages do not do.
    """
    version = str(import_module("transformers").__version__)
    if int(version.partition(".")[0]) < 5:
        raise TaskError(
            f"stages of {type(model).__name__} need transformers 5, found {version}. "
            "Install it: pip install -U transformers"
        )
    config: Any = model.config
    for field in ("add_cross_attention", "output_hidden_states", "output_attentions"):
        if getattr(config, field, False):
            raise TaskError(
                f"config.{field}=True of {type(model).__name__}: its stages cannot do that. Set it to False."
            )
    if not getattr(config, "return_dict", True):
        raise TaskError("config.return_dict=False: stages return an output with .logits. Set it to True.")
