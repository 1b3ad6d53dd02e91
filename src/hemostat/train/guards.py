"""What is looked at when a step was not finite: the rows that hold NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch


def nonfinite_rows(batch: Any) -> list[int]:
    """Rows of a batch in which any floating tensor holds NaN or infinity.

    Args:
        batch: any tree of tensors whose first dim is the row.

    Examples:
        >>> nonfinite_rows((torch.tensor([[1.0], [float("nan")]]), torch.tensor([0, 1])))
        [1]
    """
    rows: set[int] = set()
    for leaf in _leaves(batch):
        if leaf.is_floating_point() and leaf.dim() > 0:
            bad = ~torch.isfinite(leaf.detach().reshape(leaf.shape[0], -1)).all(dim=1)
            rows.update(bad.nonzero().flatten().tolist())
    return sorted(rows)


def _leaves(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _leaves(value)
    elif isinstance(tree, tuple | list):
        for value in tree:
            yield from _leaves(value)
