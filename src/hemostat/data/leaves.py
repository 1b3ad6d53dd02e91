"""The tensors in a batch, whatever tree it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


def tensors(tree: Any) -> Iterator[Tensor]:
    """Every tensor in tuples, lists and dicts.

    Examples:
        >>> [leaf.item() for leaf in tensors({"x": torch.tensor(1), "y": [torch.tensor(2), "name"]})]
        [1, 2]
    """
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from tensors(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from tensors(value)


def float_images(tree: Any) -> Tensor | None:
    """The largest float32 tensor of four or more dimensions, as images in a batch are; None without one."""
    images = (leaf for leaf in tensors(tree) if leaf.dtype == torch.float32 and leaf.dim() >= 4)
    return max(images, key=Tensor.numel, default=None)
