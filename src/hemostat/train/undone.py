"""`undone` and `Buffers`: computing with a model without leaving a trace in it."""

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
    numbers, buffers = rng_state(device), Buffers(model)
    yield
    buffers.put_back()
    for param in params:
        param.grad = None
    set_rng_state(numbers, device)


class Buffers:
    """The running statistics of a model as they were when they were last kept.

    Masks and tables are buffers too; what the first window leaves as it was is no longer copied after it. Torch's
    count of changes cannot tell, because batch norm does not raise it.

    Args:
        model: unwrapped.

    Examples:
        >>> norm = torch.nn.BatchNorm1d(2)
        >>> buffers = Buffers(norm)
        >>> _ = norm(torch.ones(3, 2))
        >>> buffers.put_back()
        >>> norm.running_mean.tolist()
        [0.0, 0.0]
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._buffers = list(model.buffers())
        self._copies = [buffer.detach().clone() for buffer in self._buffers]
        self._chosen = self._window_passed = False

    @torch.no_grad()
    def keep(self) -> None:
        """Note the values of now, at the start of a window."""
        if self._window_passed and not self._chosen:
            pairs = zip(self._buffers, self._copies, strict=True)
            moved = [(buffer, copy) for buffer, copy in pairs if not torch.equal(buffer, copy)]
            self._buffers, self._copies = [buffer for buffer, _ in moved], [copy for _, copy in moved]
            self._chosen = True
        if self._buffers:
            torch._foreach_copy_(self._copies, self._buffers)
        self._window_passed = True

    @torch.no_grad()
    def put_back(self) -> None:
        """Write back the values that were kept."""
        if self._buffers:
            torch._foreach_copy_(self._buffers, self._copies)
        self._window_passed = False
