"""A `Decoder` from what a person knows by heart: parameters, layers, hidden size."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from hemostat.errors import FieldError
from hemostat.plan.families.decoder import Decoder

DEFAULT_VOCAB: Final = 50257
DEFAULT_NUM_TOKENS: Final = 1024
DEFAULT_NUM_LAYERS: Final = 24
DEFAULT_HIDDEN: Final = 1024
_HEAD_WIDTH: Final = 64
_MOST_HIDDEN: Final = 1 << 16
_ASPECT: Final = 128  # hidden size over layers: 12288 / 96 of GPT-3, 4096 / 32 of Llama-7B
_MOST_VOCAB: Final = 262_208  # the largest table of words of a decoder that is in use: Gemma 3
_NEAR: Final = 0.03
_ROUNDED: Final = 0.1  # "7B" is said of 6.6 to 7.6 billion


def decoder_from_numbers(
    num_params: float | None = None,
    num_layers: int | None = None,
    hidden: int | None = None,
    *,
    num_tokens: int = DEFAULT_NUM_TOKENS,
    vocab: int | None = None,
) -> Decoder:
    """A decoder like GPT-2 of about so many parameters.

    Layers and hidden size that are not given follow from the parameters, of a width of about 128 for each layer. Where
    both are given and the table of words is not, that has the parameters which they leave; it is shared with the
    head. The MLP is four times as wide as the blocks.

    Args:
        num_params: of the whole model; None: what the other numbers give.
        num_layers: blocks; None: what `num_params` asks for, or 24.
        hidden: width between them; None: what `num_params` asks for, or 1024.
        num_tokens: of one sample.
        vocab: rows of the embedding; None: what is left of `num_params`, or GPT-2's 50257.

    Raises:
        FieldError: a size below 1, or numbers that contradict each other.

    Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1, table 1: 12 layers x hidden^2 parameters in the
        blocks, and section 3.1: their shape hardly matters; Radford et al. 2019 for biases, positions and the shared
        table; Brown et al. 2020 (arXiv 2005.14165), table 2.1, and Touvron et al. 2023 (arXiv 2302.13971), table 2,
        for the width of 128 a layer.

    Examples:
        >>> decoder_from_numbers(320e6, 24, 1024).vocab
        16250
        >>> found = decoder_from_numbers(7e9)
        >>> found.num_layers, found.hidden, f"{found.num_params / 1e9:.2f}"
        (33, 4160, '7.07')
    """
    sizes = {"vocab": DEFAULT_VOCAB if vocab is None else vocab, "num_tokens": num_tokens}
    if num_params is None:
        layers = DEFAULT_NUM_LAYERS if num_layers is None else num_layers
        return _decoder(layers, DEFAULT_HIDDEN if hidden is None else hidden, **sizes)
    if not 0 < num_params < math.inf:
        raise FieldError("params", num_params, "must be above 0", "Write it like --params 320M.")
    if num_layers is None or hidden is None:
        decoder = _shaped(num_params, num_layers, hidden, sizes)
    else:
        decoder = _decoder(num_layers, hidden, **sizes)
        if vocab is None:
            return _with_table(decoder, num_params)
    if abs(decoder.num_params / num_params - 1) > _ROUNDED:
        raise FieldError(
            "params",
            f"{num_params:g}",
            f"is not the {decoder.num_params:,} that {decoder.num_layers} layers of width {decoder.hidden} and "
            f"{decoder.vocab:,} words have",
            "Leave a size out, and it follows; or give others.",
        )
    return decoder


def _decoder(num_layers: int, hidden: int, *, vocab: int, num_tokens: int) -> Decoder:
    width = _HEAD_WIDTH if hidden % _HEAD_WIDTH == 0 else hidden
    return Decoder(
        name="decoder",
        num_heads=hidden // width if hidden > 0 else 1,
        num_kv_heads=hidden // width if hidden > 0 else 1,
        head_width=width,
        ffn=4 * hidden,
        vocab=vocab,
        is_gated=False,
        has_norm_bias=True,
        has_bias=True,
        num_positions=num_tokens,
        is_tied=True,
        num_layers=num_layers,
        hidden=hidden,
        num_tokens=num_tokens,
    )


def _with_table(decoder: Decoder, num_params: float) -> Decoder:
    """The same with the table of words that brings it to so many parameters."""
    hidden = decoder.hidden
    without_table = decoder.num_params - decoder.vocab * hidden
    blocks = f"{decoder.num_layers} layers of width {hidden}"
    rows = round((num_params - without_table) / hidden)
    if rows < 1:
        raise FieldError(
            "params",
            f"{num_params:g}",
            f"is less than the {without_table:,} that {blocks} have",
            "Give more parameters, or fewer or narrower layers.",
        )
    if rows > _MOST_VOCAB:
        raise FieldError(
            "params",
            f"{num_params:g}",
            f"would leave {blocks} a table of {rows:,} words, and no model has one",
            "Leave --layers or --hidden out, and it follows from the parameters.",
        )
    return msgspec.structs.replace(decoder, vocab=rows)


def _shaped(num_params: float, num_layers: int | None, hidden: int | None, sizes: dict[str, int]) -> Decoder:
    """The layers, the hidden size or both that bring a decoder nearest to so many parameters."""
    widths = range(_HEAD_WIDTH, _MOST_HIDDEN + 1, _HEAD_WIDTH) if hidden is None else (hidden,)
    found: list[tuple[float, float, Decoder]] = []
    for width in widths:
        one = _decoder(1 if num_layers is None else num_layers, width, **sizes)
        layers = one.num_layers
        if num_layers is None:
            layers = max(1, 1 + round((num_params - one.num_params) / one.num_block_params))
        decoder = msgspec.structs.replace(one, num_layers=layers, name=f"decoder of {layers} x {width}")
        off = abs(decoder.num_params / num_params - 1)
        near = max(off, _NEAR)  # of all that are near enough, that of the usual shape
        found.append((near, abs(math.log(width / layers / _ASPECT)) if near == _NEAR else off, decoder))
        if one.num_params > 2 * num_params:
            break
    return min(found, key=lambda each: each[:2])[2]
