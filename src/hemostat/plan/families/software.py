"""What the software that runs a decoder keeps for backward: eager or flash attention, its norms, and its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hemostat.config import Config
from hemostat.plan.profile import Kept

if TYPE_CHECKING:
    from hemostat.plan.families.decoder import Decoder


class Loss(Config, frozen=True, kw_only=True):
    """Bytes per logit of a cross-entropy.

    Attributes:
        name: as a person says it.
        kept_bytes: from forward to backward, the logits included.
        forward_passing_bytes: besides, for a moment, in the forward pass.
        passing_bytes: besides, for a moment, in the backward pass.

    Source: eager: logits in bf16 (2), their log-softmax in fp32 (4); forward the fp32 copy (4), backward the gradient
        of both in fp32 (4 + 4); together the 14 bytes of PyPI vramcalc 0.1.2, `memory.py`. fused: Transformer Engine's
        cross-entropy writes the gradient over the logits (`pytorch/cross_entropy.py`).
    """

    name: str
    kept_bytes: float = 6
    forward_passing_bytes: float = 4
    passing_bytes: float = 8


LOSSES: Final = {
    "eager": Loss(name="eager"),
    "chunked": Loss(name="chunked", forward_passing_bytes=4 / 8, passing_bytes=8 / 8),
    "compiled": Loss(name="compiled", kept_bytes=2, forward_passing_bytes=0, passing_bytes=4),
    "separate": Loss(name="separate", kept_bytes=2, forward_passing_bytes=0, passing_bytes=2),
    "fused": Loss(name="fused", kept_bytes=2, forward_passing_bytes=0, passing_bytes=0),
}


class Widths:
    """Bytes of one sample's tensors in the compute dtype, by what they are.

    Args:
        decoder: its sizes.
        compute_bytes: of one element.
    """

    def __init__(self, decoder: Decoder, compute_bytes: float) -> None:
        tokens = decoder.num_tokens
        row = tokens * compute_bytes
        self.hidden = row * decoder.hidden
        self.queries = row * decoder.num_heads * decoder.head_width
        self.keys = row * decoder.num_kv_heads * decoder.head_width
        self.ffn = row * decoder.ffn
        self.scores = float(decoder.num_heads) * tokens * tokens  # in elements
        self.statistics = 4.0 * decoder.num_heads * tokens  # log-sum-exp of flash attention, in fp32
        self.logits = float(tokens) * decoder.vocab  # in elements


class Software(Config, frozen=True, kw_only=True):
    """How a decoder is computed, as far as memory sees it.

    Attributes:
        name: as users say it.
        loss: bytes per logit.
        compute_bytes: of an activation.
        is_flash: attention keeps no scores.
        score_bytes: of one score where attention is not fused: softmax, its copy, its dropout mask and output.
        has_fused_norms: a norm keeps its input; else the fp32 copy and the normalised values too.
        has_fp32_residual: under autocast the stream between the blocks stays in fp32.
        has_separate_casts: under autocast each matrix makes its own copy of its input.
        keeps_activation: the MLP keeps its activation's result besides its two factors.
        repeats_keys: keys and values are copied for each query head.
        gathers_inputs: with tp the whole input of the cut matrices is kept on each rank (DTensor).
        selective: what selective recomputation keeps: "products" (all of them), "half of the products"
            (torchtitan) or "all but scores" (Megatron).
    """

    name: str
    loss: Loss = LOSSES["eager"]
    compute_bytes: float = 2
    is_flash: bool = True
    score_bytes: float = 5
    has_fused_norms: bool = True
    has_fp32_residual: bool = False
    has_separate_casts: bool = False
    keeps_activation: bool = False
    repeats_keys: bool = False
    gathers_inputs: bool = False
    selective: str = "products"

    def block_kept(self, decoder: Decoder) -> tuple[Kept, ...]:
        """What one block keeps of one sample.

        Source: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.1, for the plain block; Dao et al. 2022 (arXiv
            2205.14135), section 3.1, for fused attention; saved tensors of `transformers` 4.57 to 5.24 counted with
            `torch.autograd.graph.saved_tensors_hooks`; torchtitan's `activation_checkpoint.py` for every second
            product.
        """
        return (*self._attention(decoder), *self._mlp(decoder))

    def _attention(self, decoder: Decoder) -> list[Kept]:
        widths = Widths(decoder, self.compute_bytes)
        half = self.selective == "half of the products"
        keys = widths.queries if self.repeats_keys else widths.keys
        kept = [
            *self._norm("first norm", widths, is_dropped=False),
            self._input("attention", widths, 3 if self.has_separate_casts else 1),
            Kept(name="queries", num_bytes=widths.queries, share="tp"),
            Kept(name="keys", num_bytes=keys, share="tp", is_cheap=half),
            Kept(name="values", num_bytes=keys, share="tp"),
            Kept(name="attention's output", num_bytes=widths.queries, share="tp"),
        ]
        if decoder.has_head_norms:
            copies = 1 if self.has_fused_norms else 4 / self.compute_bytes + 1
            size = copies * (widths.queries + widths.keys)
            is_cheap = self.selective != "all but scores"
            kept.append(Kept(name="norms of the heads", num_bytes=size, share="tp", is_cheap=is_cheap))
        if self.is_flash:
            kept.append(Kept(name="attention's statistics", num_bytes=widths.statistics, share="tp"))
        else:
            size = self.score_bytes * widths.scores
            kept.append(Kept(name="attention's scores", num_bytes=size, share="tp", is_cheap=True))
        if decoder.dropout:
            kept.append(self._mask("first dropout mask", widths))
        return kept

    def _mlp(self, decoder: Decoder) -> list[Kept]:
        widths = Widths(decoder, self.compute_bytes)
        is_cheap = self.selective != "all but scores"
        half = self.selective == "half of the products"
        kept = [
            *self._norm("second norm", widths, is_dropped=half),
            self._input("the MLP", widths, (2 if decoder.is_gated else 1) if self.has_separate_casts else 1),
            Kept(name="the MLP's first product", num_bytes=widths.ffn, share="tp"),
        ]
        if decoder.is_gated:
            kept.append(Kept(name="the MLP's gate", num_bytes=widths.ffn, share="tp", is_cheap=half))
            if self.keeps_activation:
                kept.append(
                    Kept(name="the MLP's activation", num_bytes=widths.ffn, share="tp", is_cheap=is_cheap)
                )
        kept.append(Kept(name="the MLP's inner result", num_bytes=widths.ffn, share="tp", is_cheap=is_cheap))
        if decoder.dropout:
            kept.append(self._mask("second dropout mask", widths))
        if is_cheap:
            kept.append(
                Kept(name="the MLP's last product", num_bytes=widths.hidden, share="sp", is_extra=True)
            )
        return kept

    def _norm(self, name: str, widths: Widths, *, is_dropped: bool) -> list[Kept]:
        """A norm's input, which is a block's own input or the sum with attention's result: that of a product."""
        if self.has_fused_norms:
            size = widths.hidden
            return [Kept(name=f"input of the {name}", num_bytes=size, share="sp", is_cheap=is_dropped)]
        wide = 4 / self.compute_bytes * widths.hidden
        normal = wide if self.has_fp32_residual else widths.hidden
        dropped = self.selective != "all but scores"
        return [
            Kept(name=f"input of the {name}, in fp32", num_bytes=wide, share="sp", is_cheap=is_dropped),
            Kept(name=f"values of the {name}", num_bytes=normal, share="sp", is_cheap=dropped),
        ]

    def _input(self, name: str, widths: Widths, num_copies: int) -> Kept:
        share = "" if self.gathers_inputs else "sp"
        size = num_copies * widths.hidden
        is_cheap = self.selective != "all but scores"
        return Kept(name=f"input of {name}", num_bytes=size, share=share, is_cheap=is_cheap)

    def _mask(self, name: str, widths: Widths) -> Kept:
        size = widths.hidden / self.compute_bytes
        return Kept(name=name, num_bytes=size, share="sp", is_cheap=self.selective != "all but scores")

    def block_passing_bytes(self, decoder: Decoder) -> float:
        """What the MLP's backward pass holds besides: the gradients of its inner tensors and of its output.

        Source: the backward pass of `silu(gate) * up`: the gradient of the product and of both factors live while the
            product itself, the input of the last matrix, was freed just before.
        """
        widths = Widths(decoder, self.compute_bytes)
        scores = 0.0 if self.is_flash else (self.compute_bytes + 4) * widths.scores
        return max((2 if decoder.is_gated else 1) * widths.ffn, scores) + 2 * widths.hidden

    def head_kept(self, decoder: Decoder) -> tuple[Kept, ...]:
        """What the last norm, the head and the loss keep of one sample."""
        widths = Widths(decoder, self.compute_bytes)
        logits = self.loss.kept_bytes * widths.logits
        return (
            *self._norm("last norm", widths, is_dropped=False),
            self._input("the head", widths, 1),
            Kept(name="logits", num_bytes=logits, share="loss"),
        )


SOFTWARE: Final = {
    software.name: software
    for software in (
        Software(name="torch"),
        Software(name="torchtitan", gathers_inputs=True, selective="half of the products"),
        Software(name="megatron", loss=LOSSES["fused"], selective="all but scores"),
        Software(
            name="transformers",
            has_fused_norms=False,
            score_bytes=6,
            keeps_activation=True,
            repeats_keys=True,
        ),
        Software(
            name="transformers autocast",
            has_fused_norms=False,
            score_bytes=6,
            has_fp32_residual=True,
            has_separate_casts=True,
            keeps_activation=True,
            repeats_keys=True,
        ),
    )
}
