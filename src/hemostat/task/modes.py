"""Evaluation mode for a while; every module gets its own mode back, also one that the user keeps frozen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model and all its parts into evaluation mode inside of the block.

    Examples:
        >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
        >>> with evaluation_mode(model):
        ...     model[0].training
        False
        >>> model[0].training, model[1].training
        (True, False)
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
