"""A tensor that may be shared out: its part on this rank, and all of it."""

from __future__ import annotations

from torch import Tensor


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that lies on this rank, not a copy; all of one that is not shared out."""
    part: Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, on this rank; of one that is shared out all ranks must ask."""
    found: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return found
