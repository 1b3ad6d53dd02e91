"""A model's tensors without their values, and what a pass raises that misses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import nn

# what a model or a loss raises that looks at values, which there are none of
WITHOUT_VALUES: Final = (
    RuntimeError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    IndexError,
    KeyError,
)


def named_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers, those of a module with several names once: torch does not put them back right else.

    Examples:
        >>> norm = nn.BatchNorm1d(2, affine=False)
        >>> [name for name, _ in named_tensors(nn.ModuleDict({"a": norm, "b": norm}))]
        ['a.running_mean', 'a.running_var', 'a.num_batches_tracked']
    """
    for prefix, module in model.named_modules():
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield f"{prefix}.{key}" if prefix else key, tensor
