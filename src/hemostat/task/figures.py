"""Figures: what `metrics` of a task gives, as sums and counts that can be pooled over batches and ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from hemostat.errors import TaskError
from hemostat.task.answers import described


class Figures:
    """Sorts the answers of `metrics`: pairs are passed on, torchmetrics objects are kept and updated.

    Args:
        name: the method, for messages.

    Examples:
        >>> Figures("Digits.metrics").pairs({"accuracy": (3, 4)}, output=None, target=None)
        {'accuracy': (3, 4)}
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[str, Any] = {}

    def pairs(self, answer: Any, output: Any, target: Any) -> dict[str, tuple[Any, Any]]:
        """The (sum, count) pairs of one batch, by name.

        Raises:
            TaskError: something else than `{name: (sum, count)}` or `{name: torchmetrics object}`.
        """
        if not isinstance(answer, Mapping):
            raise TaskError(f"{self.name} returned {described(answer)}: return {{name: (sum, count)}}.")
        pairs: dict[str, tuple[Any, Any]] = {}
        for key, value in answer.items():
            if hasattr(value, "update") and hasattr(value, "compute"):
                kept: Any = self.objects.setdefault(str(key), value)
                kept.update(output, target)
            elif isinstance(value, tuple) and len(value) == 2 and all(map(_is_number, value)):
                pairs[str(key)] = value
            else:
                raise TaskError(
                    f"{self.name} gave {described(value)} for {key!r}: "
                    f"return (sum, count), two numbers or 0-d tensors."
                )
        return pairs

    def reset(self) -> None:
        """Forget what the torchmetrics objects have seen."""
        for metric in self.objects.values():
            metric.reset()

    def finish(self) -> dict[str, float]:
        """Values of the torchmetrics objects since the last call.

        They join the ranks by themselves, so every rank must call this at the same point.
        """
        values = {}
        for key, metric in self.objects.items():
            values[key] = float(metric.compute())
            metric.reset()
        return values


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dim() == 0
    return isinstance(value, (int, float))
