"""`Profile`: what a plan knows of a model: its parts, their matrix products, and what they keep for backward."""

from __future__ import annotations

from hemostat.config import Config


class Product(Config, frozen=True, kw_only=True):
    """Equal matrix products of one forward pass, `rows` x `inner` times `inner` x `columns`.

    Attributes:
        rows: of one sample; a product with weights has `micro_batch` times as many.
        inner: summed over.
        columns: of the result.
        count: how many of them; of products between activations one sample's, a micro-batch has as many times more.
        has_weight: the right-hand side is a parameter, so samples add rows; else (attention) they add products.
        cut: what tensor parallelism divides: "columns", "inner", "count" (heads), or "" where each rank does it all.
        density: the part that is computed; 0.5 for causal attention whose kernel skips the masked half.
    """

    rows: int
    inner: int
    columns: int
    count: int = 1
    has_weight: bool = True
    cut: str = ""
    density: float = 1.0

    @property
    def flop(self) -> float:
        """Floating-point operations of one sample, forward.

        Examples:
            >>> Product(rows=2048, inner=1024, columns=4096).flop
            17179869184.0
        """
        return 2.0 * self.rows * self.inner * self.columns * self.count * self.density


class Kept(Config, frozen=True, kw_only=True):
    """A tensor that lives from a part's forward pass to its backward pass.

    Attributes:
        name: what it is, as a person says it: "input of the norm".
        num_bytes: of one sample, undivided.
        share: who divides it: "tp" (it lies inside the cut matrices), "sp" (sequence parallelism does), "loss"
            (logits that stay shared out over the vocabulary), "" nobody.
        is_cheap: selective recomputation drops it: no output of a matrix product, nor of fused attention.
        is_extra: only eager selective recomputation keeps it: an output that no backward pass reads.
    """

    name: str
    num_bytes: float
    share: str = ""
    is_cheap: bool = False
    is_extra: bool = False


class Part(Config, frozen=True, kw_only=True):
    """One part of a model, or `count` equal ones that follow each other.

    Attributes:
        name: "embedding", "blocks", "head and loss", or the module's name.
        count: equal parts in a row.
        num_params: parameters of one, undivided.
        num_tp_params: those of them that tensor parallelism divides; the others lie whole on each rank.
        num_frozen_params: those of them that are not trained: no gradient, no optimizer state.
        products: of the forward pass.
        moved_bytes: read and written by everything that is no product, per sample, forward; it bounds small work.
        kept: for backward.
        input_bytes: of one sample's input: what full recomputation keeps and what passes between stages.
        passing_bytes: the most that lives besides, for a moment, in one part's backward pass, per sample; divided
            like logits in the last part, else like what lies inside the cut matrices.
        forward_passing_bytes: the same in its forward pass; it matters for the loss.
        is_block: a pipeline may cut before it, FSDP gathers it as a unit, recomputation treats it as one.
    """

    name: str
    count: int = 1
    num_params: int = 0
    num_tp_params: int = 0
    num_frozen_params: int = 0
    products: tuple[Product, ...] = ()
    moved_bytes: float = 0.0
    kept: tuple[Kept, ...] = ()
    input_bytes: float = 0.0
    passing_bytes: float = 0.0
    forward_passing_bytes: float = 0.0
    is_block: bool = False

    @property
    def flop(self) -> float:
        """Floating-point operations of one of them, one sample, forward."""
        return sum(product.flop for product in self.products)

    @property
    def kept_bytes(self) -> float:
        """What one of them keeps of one sample, undivided, where nothing is computed again."""
        return sum(kept.num_bytes for kept in self.kept if not kept.is_extra)


class Profile(Config, frozen=True, kw_only=True):
    """A model as a plan sees it, in one precision; everything is per sample and undivided.

    Attributes:
        name: of the model.
        parts: in the order of the forward pass; the last one ends with the loss.
        num_tokens: tokens of one sample; 1 where samples have none.
        num_tied_params: parameters that the first and the last part share; both count them.
        num_buffer_bytes: running statistics and the like, whole on every rank.
        source: how it came about: "traced", or the family and the formula.
        notes: what was assumed, in sentences.
    """

    name: str
    parts: tuple[Part, ...]
    num_tokens: int = 1
    num_tied_params: int = 0
    num_buffer_bytes: int = 0
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def num_params(self) -> int:
        """Of the whole model, shared ones once."""
        return sum(part.count * part.num_params for part in self.parts) - self.num_tied_params

    @property
    def num_blocks(self) -> int:
        """Parts between which a pipeline may cut."""
        return sum(part.count for part in self.parts if part.is_block)

    @property
    def flop(self) -> float:
        """Of one sample: forward once, backward twice that; recomputation comes on top.

        Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1: backward costs twice the forward pass.
        """
        return 3.0 * sum(part.count * part.flop for part in self.parts)
