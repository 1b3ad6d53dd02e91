"""What tensor parallelism leaves of a part's parameters and activations on one process."""

from __future__ import annotations

from typing import Final

from hemostat.plan.layout import Layout
from hemostat.plan.profile import Kept, Part


def divisor(share: str, layout: Layout) -> int:
    """Among how many processes a tensor is shared out.

    Args:
        share: "tp", "sp", "loss" or "", as `Kept` says.
        layout: whose `tp`, `sequence_parallel` and `loss_parallel` count.

    Examples:
        >>> [divisor(share, Layout(tp=4, loss_parallel=False)) for share in ("tp", "sp", "loss", "")]
        [4, 4, 1, 1]
    """
    is_shared = {"tp": True, "sp": layout.sequence_parallel, "loss": layout.loss_parallel, "": False}
    return layout.tp if is_shared[share] else 1


# temporaries of a loss whose logits stay shared out, over those of a whole one: `x.float()`, `shifted` and its exp
# instead of `x.float()` alone; the one-hot gradient, its sum with the softmax, and the scaled one
LOSS_PARALLEL_FORWARD: Final = 2.0
LOSS_PARALLEL_BACKWARD: Final = 1.5


def loss_temporaries(part: Part, layout: Layout) -> tuple[float, float]:
    """Bytes of one sample that the loss holds for a moment, in its forward pass and in its backward pass.

    Source: `torch/distributed/tensor/parallel/loss.py` of torch 2.13, `_log_softmax` and
        `_nll_loss_and_log_softmax_backward`, counted tensor by tensor.

    Examples:
        >>> loss_temporaries(Part(name="head", forward_passing_bytes=4, passing_bytes=8), Layout(tp=2))
        (4.0, 6.0)
    """
    forward, backward = part.forward_passing_bytes, part.passing_bytes
    if layout.tp == 1 or not layout.loss_parallel:
        return forward, backward
    return forward * LOSS_PARALLEL_FORWARD / layout.tp, backward * LOSS_PARALLEL_BACKWARD / layout.tp


def local_params(part: Part, layout: Layout) -> float:
    """Parameters of one such part on one process.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053), section 3: matrices are cut, norms are on each process.

    Examples:
        >>> local_params(Part(name="block", num_params=100, num_tp_params=80), Layout(tp=4))
        40.0
    """
    return part.num_params - part.num_tp_params * (1 - 1 / layout.tp)


def local_matrix_params(part: Part, layout: Layout) -> float:
    """Those of them that products read, which autocast copies and a gradient of their shape is made for.

    Source: inner times columns of each product, divided as `Product.cut` says.

    Examples:
        >>> from hemostat.plan.profile import Product
        >>> block = Part(name="block", num_params=50, products=(Product(rows=9, inner=4, columns=8, cut="inner"),))
        >>> local_matrix_params(block, Layout(tp=2))
        16.0
    """
    total = 0.0
    for product in part.products:
        if product.has_weight:
            cut = layout.tp if product.cut in ("columns", "inner") else 1
            total += product.inner * product.columns * product.count / cut
    return min(total, local_params(part, layout))


def local_bytes(kept: tuple[Kept, ...], layout: Layout) -> float:
    """Bytes of one sample's tensors on one process.

    Source: Korthikanti et al. 2022 (arXiv 2205.05198), sections 4.2.1 and 4.2.2.
    """
    total = 0.0
    for each in kept:
        total += each.num_bytes / divisor(each.share, layout)
    return total
