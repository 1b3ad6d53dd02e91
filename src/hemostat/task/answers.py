"""What a user's loss may return, and the repair for everything else that people do return."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hemostat.errors import TaskError


def check_total(total: Any, name: str, repair: str) -> None:
    """Refuse a loss that backward cannot start from.

    Args:
        total: what the user returned as sum or mean.
        name: the method, as in "Digits.loss".
        repair: what to return instead of a loss per item.

    Raises:
        TaskError: not a 0-d floating tensor that depends on a parameter.
    """
    if not isinstance(total, Tensor):
        raise TaskError(
            f"{name} gave a loss of type {type(total).__name__}, which has no gradient. "
            f"Return a tensor, without .item() or float()."
        )
    if total.dim():
        raise TaskError(f"{name} returned a tensor of shape {tuple(total.shape)}: return {repair}.")
    if not total.is_floating_point():
        raise TaskError(
            f"{name} gave a loss of dtype {total.dtype}: it must be a floating number. "
            f"Return the loss first and the count second."
        )
    if not total.requires_grad and torch.is_grad_enabled():
        raise TaskError(
            f"{name} gave a loss that does not depend on any trainable parameter. "
            f"Leave out detach(), no_grad() and .data, and check that parameters require gradients."
        )


def check_count(count: Any, name: str) -> None:
    """Refuse what is no number of items.

    Raises:
        TaskError: not a number from 0 on, nor a 0-d tensor.
    """
    if type(count) is int and count >= 0:
        return
    if isinstance(count, Tensor):
        if count.dim():
            raise TaskError(
                f"{name} returned a count of shape {tuple(count.shape)}: return its sum, count.sum()."
            )
    elif isinstance(count, bool) or not isinstance(count, (int, float)):
        raise TaskError(
            f"{name} returned a count of type {type(count).__name__}: it must be a number or a 0-d tensor. "
            f"Return the number of items in the sum, such as target.numel()."
        )
    elif not 0 <= count < float("inf"):
        raise TaskError(f"{name} returned count={count}: a count is 0 or more. Return target.numel().")


def about_no_pair(result: Any, name: str) -> str:
    """The message for a `loss` that is not a tuple of two."""
    if isinstance(result, Tensor):
        if result.dim():
            return (
                f"{name} returned a tensor of shape {tuple(result.shape)}: return (loss.sum(), loss.numel())."
            )
        return (
            f"{name} returned one number: a sum and its count are needed, so that means stay exact. "
            f"Return (loss_sum, count), for example with reduction='sum' and target.numel()."
        )
    what = "None" if result is None else f"a {type(result).__name__}"
    if isinstance(result, (tuple, list)):
        what += f" of {len(result)}"
    return f"{name} returned {what}: return a tuple (sum, count)."


def about_no_loss(result: Any, name: str) -> str:
    """The message for a `step` without a loss in its answer."""
    if result is None:
        return f"{name} returned None: return the mean loss, or an object with .loss."
    return (
        f"{name} returned a {type(result).__name__} whose loss is None. Hugging Face models compute it only "
        f"when they are given labels: pass labels=..."
    )


def described(value: Any) -> str:
    """A value as a message shows it: tensors by shape."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if is_text(value) and not isinstance(value, str):
        return f"a {type(value).__name__} of {len(value)} texts"
    if isinstance(value, tuple):
        return f"({', '.join(map(described, value))})"
    return repr(value) if isinstance(value, (int, float, str)) else f"a {type(value).__name__}"


def is_text(value: Any) -> bool:
    """A text or a batch of them, as collation leaves them."""
    if isinstance(value, tuple | list):
        return bool(value) and all(isinstance(item, str) for item in value)
    return isinstance(value, str)
