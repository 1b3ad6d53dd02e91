"""`unseen_bytes`: what a kernel keeps for its backward pass, where torch learns its size only by running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

_PAGE_BYTES: Final = 4096


def unseen_bytes(operation: Any, args: Sequence[Any]) -> int:
    """Bytes that an operation keeps beyond what its result without values shows.

    Args:
        operation: an overload of `torch.ops.aten`.
        args: positional arguments.

    Examples:
        >>> unseen_bytes(torch.ops.aten.relu.default, (torch.ones(3),))
        0
    """
    found = _UNSEEN.get(getattr(operation, "overloadpacket", None))
    return found(args) if found else 0


def _recurrent_workspace(args: Sequence[Any]) -> int:
    """One direction of one LSTM layer on the CPU: gates, states and their gradients, each from a page border on.

    Source: the lists of buffers and of padded widths in oneDNN (src/cpu/rnn/rnn_utils.cpp); which of them are there
        was found from the workspaces of nine sizes under torch 2.13, all met exactly (tests/task/test_unseen.py).
    """
    (steps, samples, width), hidden, is_training = args[0].shape, args[10], args[15]
    if not is_training:
        return 0
    wide, padded = _padded(max(width, hidden)), _padded(hidden)
    floats = [
        steps * samples * _padded(4 * hidden),
        *3 * [2 * (steps + 1) * samples * wide],
        *2 * [2 * (steps + 1) * samples * hidden],
        steps * samples * padded,
    ]
    return sum(-(-4 * count // _PAGE_BYTES) * _PAGE_BYTES for count in floats)


def _padded(width: int) -> int:
    """Rows begin at 64 bytes, and not all of them at the same part of a page."""
    whole = -(-width // 16) * 16
    return whole + 16 if whole % 256 == 0 else whole


_UNSEEN: Final[dict[Any, Callable[[Sequence[Any]], int]]] = {
    torch.ops.aten.mkldnn_rnn_layer: _recurrent_workspace
}
