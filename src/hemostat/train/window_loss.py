"""The loss of one window on one rank, kept on the device until the window is over."""

from __future__ import annotations

import torch


class WindowLoss:
    """Collects loss sums and counts without asking the device for their values.

    Examples:
        >>> loss = WindowLoss()
        >>> loss.add(torch.tensor(3.0), 2)
        >>> loss.add(torch.tensor(1.0), torch.tensor(2))
        >>> loss.drain(), loss.drain()
        ((4.0, 4.0), (0.0, 0.0))
    """

    def __init__(self) -> None:
        self._losses: list[torch.Tensor] = []
        self._counts: list[float | torch.Tensor] = []

    def add(self, loss_sum: torch.Tensor, count: float | torch.Tensor) -> None:
        """Take one micro-batch."""
        self._losses.append(loss_sum)
        self._counts.append(count)

    def drain(self) -> tuple[float, float]:
        """Loss sum and count so far; both start again at 0."""
        loss_sum = sum(map(float, self._losses))  # not fsum, which raises on infinities of both signs
        count = sum(map(float, self._counts))
        self._losses.clear()
        self._counts.clear()
        return float(loss_sum), float(count)
