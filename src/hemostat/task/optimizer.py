"""The optimizer that a task builds itself, and the name under which the recipe has a rule for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hemostat.errors import TaskError, UnknownNameError
from hemostat.recipe import Base
from hemostat.task.calling import call
from hemostat.task.task import Task


def own_optimizer(task: Task, params: list[nn.Parameter]) -> torch.optim.Optimizer | None:
    """The optimizer that a task builds itself, or None where it only names one or says nothing.

    Raises:
        TaskError: the method raised, or returned something else.
    """
    named: Any = task.optimizer  # a field of that name takes the place of the method
    if isinstance(named, str) or named is None:
        return None
    built = call(task, "optimizer", params)
    if built is not None and not isinstance(built, torch.optim.Optimizer):
        raise TaskError(
            f"{type(task).__name__}.optimizer returned a {type(built).__name__}: return a torch.optim.Optimizer."
        )
    return built


def recipe_optimizer(optimizer: torch.optim.Optimizer) -> str | None:
    """The name under which the recipe knows a task's own optimizer; None where it has no rule for it.

    Examples:
        >>> recipe_optimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1))
        'sgd'
    """
    for kind in type(optimizer).__mro__:
        try:
            return Base(optimizer=kind.__name__).optimizer.lower()
        except UnknownNameError:
            continue  # a subclass under a name of its own: its parent decides
    return None
