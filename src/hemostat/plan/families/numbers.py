"""A `Decoder` from what a person knows by heart: parameters, layers, hidden size."""

from __future__ import annotations

import msgspec

from hemostat.errors import FieldError
from hemostat.plan.families.decoder import Decoder

DEFAULT_VOCAB = 50257
DEFAULT_NUM_TOKENS = 1024
_HEAD_WIDTH = 64


def decoder_from_numbers(
    num_params: float | None = None,
    num_layers: int = 24,
    hidden: int = 1024,
    *,
    num_tokens: int = DEFAULT_NUM_TOKENS,
    vocab: int | None = None,
) -> Decoder:
    """A decoder like GPT-2 of about so many parameters.

    Parameters that layers and hidden size do not account for are those of the table of words, which is shared with the
    head; the MLP is four times as wide as the blocks.

    Args:
        num_params: of the whole model; None: what the other numbers give.
        num_layers: blocks.
        hidden: width between them.
        num_tokens: of one sample.
        vocab: rows of the embedding; None: what is left of `num_params`, or GPT-2's 50257.

    Raises:
        FieldError: a size below 1, or fewer parameters than the blocks have.

    Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1, table 1: 12 layers x hidden^2 parameters in the
        blocks; Radford et al. 2019 for biases, positions and the shared table.

    Examples:
        >>> decoder_from_numbers(320e6, 24, 1024).vocab
        16250
    """
    width = _HEAD_WIDTH if hidden % _HEAD_WIDTH == 0 else hidden

    decoder = Decoder(
        name="decoder",
        num_heads=hidden // width,
        num_kv_heads=hidden // width,
        head_width=width,
        ffn=4 * hidden,
        vocab=DEFAULT_VOCAB if vocab is None else vocab,
        is_gated=False,
        has_norm_bias=True,
        has_bias=True,
        num_positions=num_tokens,
        is_tied=True,
        num_layers=num_layers,
        hidden=hidden,
        num_tokens=num_tokens,
    )
    if vocab is not None or num_params is None:
        return decoder
    without_table = decoder.num_params - decoder.vocab * hidden
    rows = round((num_params - without_table) / hidden)
    if rows < 1:
        raise FieldError(
            "params",
            f"{num_params:g}",
            f"is less than the {without_table:,} that {num_layers} layers of width {hidden} have",
            "Give more parameters, or fewer or narrower layers.",
        )
    return msgspec.structs.replace(decoder, vocab=rows)
