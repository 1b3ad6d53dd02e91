"""A decoder whose own parameters are frozen, with low-rank adapters beside the matrices of attention."""

from __future__ import annotations

import msgspec

from hemostat.plan.families.decoder import Decoder, decoder_profile
from hemostat.plan.families.software import SOFTWARE, Software
from hemostat.plan.profile import Kept, Part, Profile

_ADAPTER_BYTES = 4  # PEFT keeps adapters, and casts what they read, to fp32
# read only for the gradient of a matrix, which a frozen one does not have
_FOR_FROZEN = ("input of attention", "input of the MLP", "the MLP's inner result", "input of the head")


def adapter_params(decoder: Decoder, rank: int) -> int:
    """Parameters of the adapters of one block: beside queries, keys, values and attention's projection.

    Source: Hu et al. 2021 (arXiv 2106.09685), section 4.1: two matrices of `rank` columns for each matrix.

    Examples:
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=2, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> adapter_params(tiny, 8)
        3584
    """
    queries, keys = decoder.num_heads * decoder.head_width, decoder.num_kv_heads * decoder.head_width
    return rank * (4 * decoder.hidden + 2 * queries + 2 * keys)


def lora_profile(
    decoder: Decoder,
    rank: int,
    software: str | Software = "transformers",
    *,
    is_cast: bool = True,
    is_quantised: bool = False,
) -> Profile:
    """The profile of a decoder that is fine-tuned through adapters.

    Args:
        decoder: its sizes.
        rank: of the adapters.
        software: a name of `SOFTWARE`, or one changed.
        is_cast: each adapter reads a copy of its own, as in PEFT: in fp32, under autocast in the compute dtype;
            False: they read what the matrices read.
        is_quantised: the frozen matrices are 4-bit ones, whose products keep their inputs all the same.

    Raises:
        UnknownNameError: no such software.

    Source: `peft` 0.17, `LoraLayer._cast_input_dtype`; `MatMul4Bit` of bitsandbytes, which saves its input.

    Examples:
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=2, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> parts = lora_profile(tiny, 8).parts
        >>> [part.num_params - part.num_frozen_params for part in parts]
        [0, 3584, 0]
    """
    profile = decoder_profile(decoder, software)
    used = SOFTWARE[software] if isinstance(software, str) else software
    embedding, blocks, head = (_frozen(part, is_quantised) for part in profile.parts)
    blocks = msgspec.structs.replace(
        blocks,
        num_params=blocks.num_params + adapter_params(decoder, rank),
        kept=(*blocks.kept, *_read_by_adapters(decoder, used, is_cast)),
    )
    return msgspec.structs.replace(
        profile,
        parts=(embedding, blocks, head),
        source=f"{profile.source}, with adapters of rank {rank}",
    )


def _frozen(part: Part, is_quantised: bool) -> Part:
    kept = tuple(each for each in part.kept if is_quantised or each.name not in _FOR_FROZEN)
    return msgspec.structs.replace(part, num_frozen_params=part.num_params, kept=kept)


def _read_by_adapters(decoder: Decoder, software: Software, is_cast: bool) -> tuple[Kept, ...]:
    """One copy of the input for each adapter, or one for all."""
    element = software.compute_bytes if software.has_separate_casts or not is_cast else _ADAPTER_BYTES
    row = element * decoder.num_tokens
    if not is_cast:
        return (
            Kept(name="input of the adapters", num_bytes=row * decoder.hidden, share="sp", is_cheap=True),
        )
    return (
        Kept(name="inputs of the adapters", num_bytes=3 * row * decoder.hidden, share="sp", is_cheap=True),
        Kept(
            name="input of the last adapter",
            num_bytes=row * decoder.num_heads * decoder.head_width,
            share="tp",
            is_cheap=True,
        ),
    )
