"""`Mirror`: stands for a module of which a pipeline stage holds only some parts, and shares these with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from torch import nn


class Mirror(nn.Module):
    """A module with some of another one's children, parameters and buffers, under the same names.

    Children are the same objects. A parameter that is replaced here (by its shard, or by a DTensor) is replaced in
    the original too. The training mode is one.

    Args:
        original: the module.
        names: full names of what the stage holds.
        prefix: full name of the module with a dot, "" for the model.

    Examples:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1, bias=False))
        >>> mirror = Mirror(model, {"1"})
        >>> [name for name, _ in mirror.named_parameters()]
        ['1.weight']
        >>> _ = mirror.eval()
        >>> model.training, model[0].training, model[1].training
        (False, True, False)
    """

    def __init__(self, original: nn.Module, names: Collection[str], prefix: str = "") -> None:
        mode = original.training
        self.__dict__["_original"] = original  # no child: it holds what the stage does not
        super().__init__()
        self.training = mode
        held = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        buffers = [key for key in original._buffers if key in held]
        self._parameters = _Linked(original._parameters, [key for key in original._parameters if key in held])
        self._buffers = _Linked(original._buffers, buffers)
        self._non_persistent_buffers_set = original._non_persistent_buffers_set & set(buffers)
        self._plain = held & vars(original).keys()
        for key, child in original._modules.items():
            if child is None:
                continue
            if key in held:
                self.add_module(key, child)
            elif any(name.startswith(f"{key}.") for name in held):
                self.add_module(key, Mirror(child, names, f"{prefix}{key}."))

    @property
    def original(self) -> nn.Module:
        """What this stands for."""
        original: nn.Module = self.__dict__["_original"]
        return original

    @property
    def training(self) -> bool:
        """That of the original, whichever of the two is set."""
        return self.original.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.original.training = mode

    def __getattr__(self, name: str) -> Any:
        """A tensor that is neither parameter nor buffer is read from the original."""
        if name in self.__dict__.get("_plain", ()):
            return vars(self.original)[name]
        return super().__getattr__(name)


class _Linked(dict[str, Any]):
    """Parameters or buffers that follow each other in two modules, from here to the original."""

    def __init__(self, original: dict[str, Any], keys: Iterable[str]) -> None:
        super().__init__((key, original[key]) for key in keys)
        self._original = original

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if key in self._original:
            self._original[key] = value
