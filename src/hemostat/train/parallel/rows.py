"""Rows of a micro-batch: torch's pipelines take equal shapes, so a smaller one is filled up and cut again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]
# output of the model and number of the micro-batch -> its loss, with every factor
LossOf = Callable[[Any, int], Tensor]


def first_rows(tree: Any, num: int) -> Any:
    """The first rows of every tensor of a batch.

    Examples:
        >>> first_rows({"x": torch.arange(4)}, 2)
        {'x': tensor([0, 1])}
    """
    return pytree.tree_map(lambda leaf: leaf[:num] if isinstance(leaf, Tensor) and leaf.dim() else leaf, tree)


def filled(tree: Any, rows: int, num: int) -> Any:
    """A batch with its first row repeated until it has `num` rows.

    Args:
        tree: tensors whose first dim is the row, and others, which stay.
        rows: how many it has.
        num: how many it gets.

    Examples:
        >>> filled((torch.tensor([1, 2]), torch.tensor([5])), 2, 4)
        (tensor([1, 2, 1, 1]), tensor([5]))
    """

    def fill(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.dim() or len(leaf) != rows or rows >= num:
            return leaf
        return torch.cat([leaf, leaf[:1].expand(num - len(leaf), *leaf.shape[1:])])

    return pytree.tree_map(fill, tree)
