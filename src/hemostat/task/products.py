"""`products_of`: the matrix products that one operation of torch does, with their shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

_aten: Final = torch.ops.aten


class Multiplied(NamedTuple):
    """Equal products, of all samples of the batch together.

    Attributes:
        rows: of the left-hand side.
        inner: summed over.
        columns: of the right-hand side.
        num: how many.
        has_weight: one side is a parameter; it is the right-hand one then.
        density: the part that is computed.
    """

    rows: int
    inner: int
    columns: int
    num: int = 1
    has_weight: bool = False
    density: float = 1.0


def products_of(
    operation: Any, args: Sequence[Any], result: Any, is_weight: Callable[[Tensor], bool]
) -> list[Multiplied]:
    """What an operation multiplies; nothing for one that is no product.

    A convolution is the product it is equal to: a row per place of its output, the window summed over, a column per
    channel. Attention is two products per head. A recurrent layer is one with the input and one with the state.

    Args:
        operation: an overload of `torch.ops.aten`.
        args: positional arguments.
        result: what it has returned.
        is_weight: whether a tensor is a parameter, or made of parameters alone.

    Source: torch.utils.flop_counter for what counts as a product; Chellapilla et al. 2006 (High Performance
        Convolutional Neural Networks for Document Processing), section 3, for convolution as a product.

    Examples:
        >>> a, b = torch.ones(6, 4), torch.ones(4, 8)
        >>> products_of(torch.ops.aten.mm.default, (a, b), a @ b, lambda tensor: tensor is b)
        [Multiplied(rows=6, inner=4, columns=8, num=1, has_weight=True, density=1.0)]
    """
    found = _PRODUCTS.get(getattr(operation, "overloadpacket", None))
    return found(args, result, is_weight) if found else []


def is_cheap(operation: Any) -> bool:
    """Whether selective recomputation drops its result: no linear layer, convolution or fused attention.

    Batched products count as cheap: those of unfused attention are the scores, the largest activations of all.

    Examples:
        >>> is_cheap(torch.ops.aten.mm.default), is_cheap(torch.ops.aten.gelu.default)
        (False, True)
    """
    return getattr(operation, "overloadpacket", None) not in _DEAR


def _matrices(left: Tensor, right: Tensor, is_weight: Callable[[Tensor], bool]) -> list[Multiplied]:
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    count = math.prod(left.shape[:-2])
    if is_weight(left) and not is_weight(right):
        rows, columns = columns, rows  # the transposed product, whose right-hand side is the weight
    return [Multiplied(rows, inner, columns, count, is_weight(left) or is_weight(right))]


def _mm(args: Sequence[Any], result: Any, is_weight: Any) -> list[Multiplied]:
    return _matrices(args[0], args[1], is_weight)


def _addmm(args: Sequence[Any], result: Any, is_weight: Any) -> list[Multiplied]:
    return _matrices(args[1], args[2], is_weight)


def _convolution(args: Sequence[Any], result: Any, is_weight: Any) -> list[Multiplied]:
    inputs, weight, transposed, groups = args[0], args[1], args[6], args[8]
    outer, window = weight.shape[0], math.prod(weight.shape[1:])
    if transposed:  # the weight has the channels of the input first: a row of it makes a whole window
        return [Multiplied(_places(inputs), outer // groups, window, groups, has_weight=True)]
    return [Multiplied(_places(result), window, outer // groups, groups, has_weight=True)]


def _places(pictures: Tensor) -> int:
    """Of all samples; the dim after the first one is the channels."""
    return pictures.shape[0] * math.prod(pictures.shape[2:])


def _attention(args: Sequence[Any], result: Any, is_weight: Any) -> list[Multiplied]:
    query, key, value = args[:3]
    flags = [arg for arg in args[3:] if isinstance(arg, bool)]
    causal = flags[-1] if flags else False  # each kernel has `is_causal` as its last flag by position
    count, rows, columns = math.prod(query.shape[:-2]), query.shape[-2], key.shape[-2]
    density = 0.5 if causal else 1.0
    return [
        Multiplied(rows, query.shape[-1], columns, count, density=density),
        Multiplied(rows, columns, value.shape[-1], count, density=density),
    ]


def _recurrent(args: Sequence[Any], result: Any, is_weight: Any) -> list[Multiplied]:
    inputs, (of_input, of_state) = args[0], args[1:3]
    steps, samples = inputs.shape[:2]
    return [
        Multiplied(steps * samples, of_input.shape[1], of_input.shape[0], has_weight=True),
        # one step after the other: the rows of a product are those of one step
        Multiplied(samples, of_state.shape[1], of_state.shape[0], steps, has_weight=True),
    ]


_PRODUCTS: Final[dict[Any, Callable[[Sequence[Any], Any, Any], list[Multiplied]]]] = {
    _aten.mm: _mm,
    _aten.addmm: _addmm,
    _aten.bmm: _mm,
    _aten.baddbmm: _addmm,
    _aten.convolution: _convolution,
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention: _attention,
    _aten._scaled_dot_product_efficient_attention: _attention,
    _aten._scaled_dot_product_cudnn_attention: _attention,
    _aten.mkldnn_rnn_layer: _recurrent,
}
_DEAR: Final = _PRODUCTS.keys() - {_aten.bmm, _aten.baddbmm, _aten.mkldnn_rnn_layer}
