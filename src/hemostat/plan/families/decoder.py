"""`Decoder`: the numbers of a decoder-only language model, its parameters, and its `Profile` in closed form."""

from __future__ import annotations

from hemostat.config import Config
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.families.software import SOFTWARE, Software, Widths
from hemostat.plan.profile import Kept, Part, Product, Profile

_MOST = 1 << 40  # no size of a model comes near; products of larger ones are no numbers any more
_WHOLE = ("num_layers", "hidden", "num_heads", "num_kv_heads", "head_width", "ffn", "vocab", "num_tokens")


class Decoder(Config, frozen=True, kw_only=True):
    """Sizes of a decoder: blocks of attention and MLP between an embedding and a head.

    Attributes:
        name: of the model.
        num_layers: blocks.
        hidden: width between the blocks.
        num_heads: of queries.
        num_kv_heads: of keys and values.
        head_width: of one head.
        ffn: inner width of the MLP.
        vocab: rows of the embedding.
        num_tokens: of one sample.
        is_gated: the MLP has three matrices (SwiGLU) and not two.
        has_norm_bias: LayerNorm, and not RMSNorm.
        has_head_norms: queries and keys are normalised head by head (Qwen3).
        has_bias: the matrices have a bias each; "qkv" where only those of attention's inputs have.
        num_positions: rows of a learned table of positions; 0 where they are computed.
        is_tied: embedding and head are one matrix.
        dropout: part that is dropped; above 0 each dropout keeps a mask of one byte an element.

    Raises:
        FieldError: a size below 1, or heads that cannot be shared out.
    """

    name: str = "decoder"
    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_width: int
    ffn: int
    vocab: int
    num_tokens: int
    is_gated: bool = True
    has_norm_bias: bool = False
    has_head_norms: bool = False
    has_bias: bool | str = False
    num_positions: int = 0
    is_tied: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Sizes are sizes."""
        for name in _WHOLE:
            if not 1 <= getattr(self, name) <= _MOST:
                rule = "must be 1 or more" if getattr(self, name) < 1 else "is larger than any model's"
                raise FieldError(name, getattr(self, name), rule, "Write the model's own number.")
        if self.num_heads % self.num_kv_heads:
            raise FieldError(
                "num_kv_heads",
                self.num_kv_heads,
                f"does not divide the {self.num_heads} heads",
                "Write the model's own number.",
            )

    @property
    def num_block_params(self) -> int:
        """Of one block.

        Source: Touvron et al. 2023 (arXiv 2302.13971), section 2.2, with the grouped heads of Ainslie et al. 2023
            (arXiv 2305.13245); Radford et al. 2019 for two matrices and biases.
        """
        head_norms = 2 * self.head_width if self.has_head_norms else 0
        return self.num_matrix_params + self._num_bias_params + 2 * self.num_norm_params + head_norms

    @property
    def num_matrix_params(self) -> int:
        """Of the matrices of one block, which tensor parallelism divides."""
        queries, keys = self.num_heads * self.head_width, self.num_kv_heads * self.head_width
        mlp = (3 if self.is_gated else 2) * self.hidden * self.ffn
        return 2 * self.hidden * (queries + keys) + mlp

    @property
    def num_norm_params(self) -> int:
        """Of one norm."""
        return self.hidden * (2 if self.has_norm_bias else 1)

    @property
    def _num_bias_params(self) -> int:
        if not self.has_bias:
            return 0
        qkv = (self.num_heads + 2 * self.num_kv_heads) * self.head_width
        return (
            qkv if self.has_bias == "qkv" else qkv + 2 * self.hidden + (2 if self.is_gated else 1) * self.ffn
        )

    @property
    def num_params(self) -> int:
        """Of the whole model."""
        tables = self.vocab * self.hidden * (1 if self.is_tied else 2) + self.num_positions * self.hidden
        return self.num_layers * self.num_block_params + tables + self.num_norm_params


def decoder_profile(decoder: Decoder, software: str | Software = "torch") -> Profile:
    """The profile of a decoder as some software runs it.

    Args:
        decoder: its sizes.
        software: a name of `SOFTWARE`, or one changed; it decides what is kept for backward.

    Raises:
        UnknownNameError: no such software.

    Examples:
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=2, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> profile = decoder_profile(tiny)
        >>> profile.num_params == tiny.num_params, profile.num_blocks
        (True, 2)
    """
    if isinstance(software, str) and software not in SOFTWARE:
        raise UnknownNameError("software", software, SOFTWARE)
    used = SOFTWARE[software] if isinstance(software, str) else software
    return Profile(
        name=decoder.name,
        parts=(_embedding(decoder, used), _blocks(decoder, used), _head(decoder, used)),
        num_tokens=decoder.num_tokens,
        num_tied_params=decoder.vocab * decoder.hidden if decoder.is_tied else 0,
        source=f"closed form of a decoder in {used.name}",
        notes=(f"what is kept for backward is that of {used.name}", f"loss: {used.loss.name}"),
    )


def _embedding(decoder: Decoder, used: Software) -> Part:
    widths, table = Widths(decoder, used.compute_bytes), decoder.vocab * decoder.hidden
    mask = Kept(name="dropout mask", num_bytes=float(decoder.num_tokens * decoder.hidden), share="sp")
    return Part(
        name="embedding",
        num_params=table + decoder.num_positions * decoder.hidden,
        num_tp_params=table,
        kept=(mask,) if decoder.dropout else (),
        input_bytes=8.0 * decoder.num_tokens,
        moved_bytes=2 * widths.hidden,
    )


def _blocks(decoder: Decoder, used: Software) -> Part:
    widths = Widths(decoder, used.compute_bytes)
    return Part(
        name="blocks",
        count=decoder.num_layers,
        num_params=decoder.num_block_params,
        num_tp_params=decoder.num_matrix_params,
        products=_block_products(decoder, used),
        moved_bytes=_moved_bytes(decoder, widths, used),
        kept=used.block_kept(decoder),
        input_bytes=widths.hidden * (2 if used.has_fp32_residual else 1),
        passing_bytes=used.block_passing_bytes(decoder),
        is_block=True,
    )


def _head(decoder: Decoder, used: Software) -> Part:
    """The last norm, the head and the loss.

    Source: the bytes that the loss moves are counted: logits and what is kept of them are written once and read twice,
        by the sum over the words and by the value of the right one.
    """
    widths, table = Widths(decoder, used.compute_bytes), decoder.vocab * decoder.hidden
    product = Product(rows=decoder.num_tokens, inner=decoder.hidden, columns=decoder.vocab, cut="columns")
    return Part(
        name="head and loss",
        num_params=table + decoder.num_norm_params,
        num_tp_params=table,
        products=(product,),
        kept=used.head_kept(decoder),
        input_bytes=widths.hidden,
        passing_bytes=used.loss.passing_bytes * widths.logits,
        forward_passing_bytes=used.loss.forward_passing_bytes * widths.logits,
        moved_bytes=_loss_moved_bytes(used) * widths.logits,
    )


def _loss_moved_bytes(used: Software) -> float:
    """Bytes per logit that the loss moves forward: three readings, a wider copy written and read, what is kept.

    Source: Milakov and Gimelshein 2018 (arXiv 1805.02867), section 2: a safe softmax reads for the maximum, for the
        sum and for the result.
    """
    loss, logit_bytes = used.loss, used.compute_bytes
    return 3 * logit_bytes + 2 * loss.forward_passing_bytes + loss.kept_bytes - logit_bytes


def _block_products(decoder: Decoder, used: Software) -> tuple[Product, ...]:
    tokens, hidden, width = decoder.num_tokens, decoder.hidden, decoder.head_width
    queries, keys = decoder.num_heads * width, decoder.num_kv_heads * width
    density = 0.5 if used.is_flash else 1.0
    first, heads = 2 if decoder.is_gated else 1, decoder.num_kv_heads
    group = decoder.num_heads // heads  # of queries that read the same keys, and stay together under tp
    return (
        Product(rows=tokens, inner=hidden, columns=queries + 2 * keys, cut="columns"),
        Product(
            rows=group * tokens,
            inner=width,
            columns=tokens,
            count=heads,
            has_weight=False,
            cut="count",
            density=density,
        ),
        Product(
            rows=group * tokens,
            inner=tokens,
            columns=width,
            count=heads,
            has_weight=False,
            cut="count",
            density=density,
        ),
        Product(rows=tokens, inner=queries, columns=hidden, cut="inner"),
        Product(rows=tokens, inner=hidden, columns=first * decoder.ffn, cut="columns"),
        Product(rows=tokens, inner=decoder.ffn, columns=hidden, cut="inner"),
    )


def _moved_bytes(decoder: Decoder, widths: Widths, used: Software) -> float:
    """Norms read and write, sums of the residual read two and write one, rotations and the activation likewise.

    Source: counted from the operations of the block, each as a kernel of its own (two norms, two sums, the rotation of
        queries and keys, the activation, a softmax over six copies of eager scores, two dropouts); Ivanov et al. 2021
        (arXiv 2007.00072), section 3, on why these wait for memory.
    """
    moved = 2 * 2 * widths.hidden + 2 * 3 * widths.hidden
    moved += 2 * (widths.queries + widths.keys) if not decoder.num_positions else 0
    moved += (3 if decoder.is_gated else 2) * widths.ffn
    moved += 0 if used.is_flash else 6 * widths.scores
    return moved + (2 * 3 * widths.hidden if decoder.dropout else 0)
