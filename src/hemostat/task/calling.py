"""Asking a task for its model and its data, with the user's own line in the message when that fails."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import nn

from hemostat.blame import on_rank, said, user_line
from hemostat.errors import HemostatError, TaskError
from hemostat.task.task import Task


def call(task: Task, hook: str, *args: Any) -> Any:
    """What one method of a task returns.

    Args:
        task: the task.
        hook: name of the method.
        args: its arguments.

    Raises:
        TaskError: the method raised; the message has its file and line.

    Examples:
        >>> call(Task(), "val_data") is None
        True
    """
    try:
        return getattr(task, hook)(*args)
    except HemostatError:
        raise
    except Exception as error:
        where = user_line(error)
        fix = ""
        if isinstance(error, dataclasses.FrozenInstanceError):
            fix = " The fields of a task do not change: use functools.cached_property for what is built once."
        if isinstance(error, FileNotFoundError) and on_rank():
            fix = " Every rank must find the same files."
        at = f" at {where}" if where else ""
        raise TaskError(f"{type(task).__name__}.{hook} raised {said(error)}{at}{on_rank()}.{fix}") from error


def build_model(task: Task) -> nn.Module:
    """The task's model, checked.

    Raises:
        TaskError: it raised, is no module, or has nothing to train.
    """
    model = call(task, "model")
    name = f"{type(task).__name__}.model"
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
        raise TaskError(
            f"{name} returned {'None' if model is None else got}: return a torch.nn.Module object."
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TaskError(f"{name} returned a model without a trainable parameter. Set requires_grad on some.")
    return model
