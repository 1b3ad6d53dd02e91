"""Batches are trees of tensors: how many samples one holds, and copies of it elsewhere or shorter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from hemostat.errors import TaskError


def num_samples(batch: Any) -> int:
    """Leading dimension that all tensors of the tree share; 0-d tensors and other leaves do not count.

    Raises:
        TaskError: no tensor with a leading dimension, or two different ones.

    Examples:
        >>> num_samples({"x": torch.zeros(3, 4), "extra": [torch.zeros(3), "note"]})
        3
    """
    flat = type(batch) in (tuple, list) and all(type(item) is Tensor for item in batch)
    size = -1
    for tensor in batch if flat else tensors(batch):  # the usual pair is asked at every step
        if tensor.dim() and size != tensor.shape[0]:
            if size >= 0:
                raise TaskError(
                    f"the tensors of a batch have {size} and {tensor.shape[0]} as leading dimension: "
                    f"the number of samples is unclear. Return (loss, count) from step."
                )
            size = tensor.shape[0]
    if size < 0:
        raise TaskError(
            f"a batch of type {type(batch).__name__} holds no tensor with a leading dimension: the number of "
            f"samples is not clear. Return tensors whose first dimension counts samples, or (loss, count)."
        )
    return size


def to_device(batch: Any, device: torch.device | str, non_blocking: bool = False) -> Any:
    """The same tree with its tensors on `device`; objects with a `to` method move themselves.

    Examples:
        >>> to_device((torch.zeros(2), "note"), "meta")
        (tensor(..., device='meta', size=(2,)), 'note')
    """
    return map_leaves(batch, lambda leaf: _moved(leaf, device, non_blocking))


def take(batch: Any, num: int) -> Any:
    """The first `num` samples of a batch: views where the leaves are tensors.

    Examples:
        >>> take((torch.arange(4), {"scale": torch.tensor(2.0)}), 2)
        (tensor([0, 1]), {'scale': tensor(2.)})
    """
    size = num_samples(batch)
    return map_leaves(
        batch,
        lambda leaf: (
            leaf[:num] if isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == size else leaf
        ),
    )


def tensors(batch: Any) -> Iterator[Tensor]:
    """The tensors of a tree, in order."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for item in batch.values():
            yield from tensors(item)
    elif isinstance(batch, (tuple, list)):
        for item in batch:
            yield from tensors(item)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from tensors(getattr(batch, field.name))


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A tree of the same kinds with every leaf changed: tuple, named tuple, list, mapping, dataclass."""
    kind = type(tree)
    if kind is Tensor:
        return change(tree)
    if kind is tuple:
        return tuple([map_leaves(item, change) for item in tree])
    if kind is list:
        return [map_leaves(item, change) for item in tree]
    if kind is dict:
        return {key: map_leaves(item, change) for key, item in tree.items()}
    if isinstance(tree, tuple):
        items = [map_leaves(item, change) for item in tree]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    if isinstance(tree, Mapping) and not hasattr(tree, "to"):
        return kind({key: map_leaves(item, change) for key, item in tree.items()})
    if isinstance(tree, list):
        return kind([map_leaves(item, change) for item in tree])
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type) and not hasattr(tree, "to"):
        names = [field.name for field in dataclasses.fields(tree) if field.init]
        return dataclasses.replace(tree, **{name: map_leaves(getattr(tree, name), change) for name in names})
    return change(tree)


def _moved(leaf: Any, device: torch.device | str, non_blocking: bool) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.to(device, non_blocking=non_blocking)
    return leaf.to(device) if hasattr(leaf, "to") else leaf
