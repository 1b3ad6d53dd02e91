"""The loss of one window on one rank, kept on the device until the window is over."""

from __future__ import annotations

from typing import Any

import torch

from hemostat.train.lag import Number


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

    def drain(self, number: Number = float) -> tuple[Any, Any]:
        """Loss sum and count so far; both start again at 0.

        Args:
            number: what each is made of before they are added; `float` asks the device.
        """
        loss_sum = sum(
            map(number, self._losses), number(0.0)
        )  # not fsum, which raises on infinities of both signs
        count = sum(map(number, self._counts), number(0.0))
        self._losses.clear()
        self._counts.clear()
        return loss_sum, count
