"""`undone`: computing with a model without leaving a trace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hemostat.train.rng import rng_state, set_rng_state


@contextmanager
def undone(model: torch.nn.Module, params: list[torch.nn.Parameter], device: torch.device) -> Iterator[None]:
    """Forget what the passes inside do: gradients, running statistics and random numbers are as before.

    Args:
        model: unwrapped.
        params: whose gradients are dropped.
        device: where the model lives.
    """
    numbers = rng_state(device)
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    yield
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)
    for param in params:
        param.grad = None
    set_rng_state(numbers, device)
