"""Loss and figures of each row of a batch from the output of one forward pass, for standard errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from hemostat.blame import said, user_line
from hemostat.errors import TaskError
from hemostat.task.batch import map_leaves, num_samples
from hemostat.task.task import Task

Pairs = dict[str, tuple[float, float]]


def row_pairs(task: Task, output: Any, target: Any) -> Iterator[Pairs]:
    """Sum and count of the loss (under the name "loss") and of each metric, row by row.

    The model is not run again. Metrics that are torchmetrics objects are left out.

    Args:
        task: a task with `loss`.
        output: what the model returned for a batch.
        target: the target of that batch.

    Raises:
        TaskError: output or target are no trees whose tensors have one leading dim, or the task's code cannot
            take a single row.

    Examples:
        >>> import torch
        >>> class Mean(Task):
        ...     def loss(self, output, target):
        ...         return (output - target).square().sum(), target.numel()
        >>> list(row_pairs(Mean(), torch.tensor([1.0, 2.0]), torch.zeros(2)))
        [{'loss': (1.0, 1.0)}, {'loss': (4.0, 1.0)}]
    """
    size = num_samples((output, target))
    for row in range(size):
        mine, wanted = _row(output, row, size), _row(target, row, size)
        try:
            total, count = task.loss(mine, wanted)
            pairs: Pairs = {"loss": (_number(total), _number(count))}
            for name, value in task.metrics(mine, wanted).items():
                if isinstance(value, tuple):
                    pairs[str(name)] = (_number(value[0]), _number(value[1]))
        except Exception as error:
            raise TaskError(f"one row alone: {said(error)} at {user_line(error)}") from error
        yield pairs


def _number(value: Any) -> float:
    return float(value.item() if isinstance(value, Tensor) else value)


def _row(tree: Any, row: int, size: int) -> Any:
    def cut(leaf: Any) -> Any:
        rowwise = isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == size
        return leaf[row : row + 1] if rowwise else leaf

    return map_leaves(tree, cut)
