"""What a script's own optimizer and loader say already: the recipe reads it, and what is not used is named."""

from __future__ import annotations

import warnings
from typing import Any

import msgspec
import torch

from hemostat.errors import HemostatWarning
from hemostat.recipe import Base
from hemostat.task import recipe_optimizer


def read_off(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The name of the optimizer, where the recipe has a rule for it, and the rate of its first group.

    Examples:
        >>> read_off(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1))
        {'lr': 0.1, 'optimizer': 'sgd'}
    """
    found: dict[str, Any] = {"lr": written_lr(optimizer.param_groups[0])}
    name = recipe_optimizer(optimizer)
    return found if name is None else found | {"optimizer": name}


def written_lr(group: dict[str, Any]) -> float:
    """The rate that a group was written with; a torch scheduler has moved `lr` and kept it as `initial_lr`."""
    return float(group.get("initial_lr", group["lr"]))


def warn_of_batch(declared: int | None, tuned: int) -> None:
    """Say that the batch of a DataLoader is not used, where the recipe names another.

    Warns:
        HemostatWarning: the two differ.
    """
    if declared not in (None, tuned):
        warnings.warn(
            f"tuned_batch={tuned}: train_data is a DataLoader with batch {declared}, which is not used. "
            f"Set tuned_batch={declared} if lr was tuned at it.",
            HemostatWarning,
            stacklevel=3,
        )


def fill_base(base: Base, optimizer: torch.optim.Optimizer) -> Base:
    """`base` with its name and rate read off the optimizer, where they were left at their defaults.

    Warns:
        HemostatWarning: a torch scheduler was built on the optimizer, which the session overrides; or no group has
            the rate that was given, and then the optimizer's is what counts.

    Examples:
        >>> base = fill_base(Base(epochs=3), torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1))
        >>> base.optimizer, base.lr
        ('sgd', 0.1)
    """
    if any("initial_lr" in group for group in optimizer.param_groups):
        warnings.warn(
            f"optimizer: a torch scheduler was built on it, and the session sets the rate itself "
            f"(schedule={base.schedule!r}). Leave the scheduler out and give schedule, warmup_steps and eta_min.",
            HemostatWarning,
            stacklevel=4,
        )
    usual, found = Base(), read_off(optimizer)
    changes = {name: value for name, value in found.items() if getattr(base, name) == getattr(usual, name)}
    rates = [written_lr(group) for group in optimizer.param_groups]
    if "lr" not in changes and base.lr not in rates:
        warnings.warn(
            f"lr={base.lr:g}: the optimizer was built with {rates[0]:g}, which is what counts. "
            "Build it with that rate (in a task: lr=self.lr), so that --set lr reaches it.",
            HemostatWarning,
            stacklevel=4,
        )
        changes["lr"] = found["lr"]
    return msgspec.structs.replace(base, **changes)
