"""`InputForm`: which tensors a model is given, as a flat tuple and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from hemostat.errors import TaskError


class InputForm:
    """The shape of a call: a tree of tensors and None, named inputs in the order of their names.

    Args:
        args: positional inputs of a sample call.
        kwargs: named inputs of the same call.

    Raises:
        TaskError: an input that is neither a tensor nor None.

    Examples:
        >>> import torch
        >>> form = InputForm((torch.ones(2), None), {"mask": torch.zeros(2)})
        >>> [tensor.tolist() for tensor in form.tensors((torch.ones(1), None), {"mask": torch.zeros(1)})]
        [[1.0], [0.0]]
        >>> form.call(["a", "b"])
        (('a', None), {'mask': 'b'})
    """

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        leaves, self._spec = pytree.tree_flatten((tuple(args), dict(sorted(kwargs.items()))))
        for leaf in leaves:
            if leaf is not None and not isinstance(leaf, Tensor):
                raise TaskError(
                    f"the model is given a {type(leaf).__name__} ({leaf!r}), and only tensors enter a pipeline. "
                    "Let split() return tensors only."
                )
        self._is_tensor = [leaf is not None for leaf in leaves]
        self.num_tensors = sum(self._is_tensor)

    @classmethod
    def of_signature(cls, model: nn.Module) -> InputForm:
        """One tensor for each input that the forward of a model cannot do without.

        Examples:
            >>> InputForm.of_signature(nn.Linear(2, 2)).num_tensors
            1
        """
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = [
            parameter
            for parameter in inspect.signature(model.forward).parameters.values()
            if parameter.default is parameter.empty and parameter.kind in positional
        ]
        form = cls((), {})
        _, form._spec = pytree.tree_flatten((tuple(needed), {}))
        form._is_tensor = [True] * len(needed)
        form.num_tensors = len(needed)
        return form

    def tensors(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """The tensors of another call of the same shape.

        Raises:
            TaskError: it has another shape.
        """
        leaves, spec = pytree.tree_flatten((tuple(args), dict(sorted(kwargs.items()))))
        if spec != self._spec or [isinstance(leaf, Tensor) for leaf in leaves] != self._is_tensor:
            raise TaskError(
                f"the model is given {_described(args, kwargs)}, and was cut into stages for other inputs. "
                "Let split() return the same inputs for every batch."
            )
        return tuple(leaf for leaf in leaves if leaf is not None)

    def call(self, values: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named inputs with these values in place of the tensors."""
        given = iter(values)
        leaves = [next(given) if is_tensor else None for is_tensor in self._is_tensor]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return args, kwargs


def _described(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    kinds = [type(value).__name__ for value in args]
    return (
        ", ".join([*kinds, *(f"{name}={type(value).__name__}" for name, value in kwargs.items())])
        or "nothing"
    )
