"""The state of an optimizer by the names of its parameters: tensors apart from plain values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hemostat.errors import RecordError, TaskError

PREFIX = "optimizer/"
_TENSOR = "$tensor"  # stands in the plain values where a tensor was


def param_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Names of the optimizer's parameters in its own order; those outside the model get a number.

    Examples:
        >>> model = nn.Linear(2, 1)
        >>> param_names(model, torch.optim.SGD([{"params": [model.bias]}, {"params": [model.weight]}]))
        ['bias', 'weight']
    """
    known = {id(param): name for name, param in model.named_parameters()}
    params = [param for group in optimizer.param_groups for param in group["params"]]
    return [known.get(id(param), f"extra.{number}") for number, param in enumerate(params)]


def plain_groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The plain values of each group, such as weight_decay, as JSON would give them back."""
    groups = [
        {key: list(value) if isinstance(value, tuple) else value for key, value in group.items()}
        for group in optimizer.param_groups
    ]
    return [{key: value for key, value in group.items() if _is_plain(value)} for group in groups]


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def split_state(
    optimizer: torch.optim.Optimizer, names: list[str], written: list[dict[str, Any]]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Take an optimizer's state apart.

    Args:
        optimizer: any whose `state_dict` is a tree of tensors and plain values.
        names: from `param_names`.
        written: `plain_groups` as they were when the optimizer was built.

    Returns:
        Tensors by name, and the tree with a reference in the place of each.

    Raises:
        TaskError: the state holds something that only pickle could keep.
    """
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    named = {names[index]: value for index, value in state["state"].items()}
    groups = [
        {key: value for key, value in group.items() if key != "params"} for group in state["param_groups"]
    ]
    tree: dict[str, Any] = {
        "class": type(optimizer).__name__,
        "params": [[names[index] for index in group["params"]] for group in state["param_groups"]],
        "written": written,
    }
    tree["state"] = {name: _split(value, f"{PREFIX}{name}", tensors) for name, value in named.items()}
    tree["groups"] = _split(groups, f"{PREFIX}groups", tensors)
    return tensors, tree


def _split(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[path] = value
        return {_TENSOR: path}
    if isinstance(value, dict):
        return {str(key): _split(item, f"{path}/{key}", tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_split(item, f"{path}/{number}", tensors) for number, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TaskError(
        f"the optimizer keeps a {type(value).__name__} at {path.removeprefix(PREFIX)}. A checkpoint holds tensors, "
        "numbers and text; nothing is pickled. Keep one of these, or set train.save=false."
    )


def join_state(
    optimizer: torch.optim.Optimizer, names: list[str], tensors: dict[str, Tensor], tree: dict[str, Any]
) -> None:
    """Put the parts of `split_state` back into a freshly built optimizer over the same parameters.

    A value of a group that is written otherwise now than it was then is a wish, and stays.

    Raises:
        RecordError: it has other parameters or groups.
    """
    indices = {name: index for index, name in enumerate(names)}
    now = optimizer.state_dict()
    sizes, were = (
        [len(group["params"]) for group in now["param_groups"]],
        [len(own) for own in tree["params"]],
    )
    strange = [name for name in tree["state"] if name not in indices]
    if strange or sizes != were:
        what = f"state of {strange[0]!r}" if strange else f"groups of {were} parameters, now {sizes}"
        raise RecordError(
            f"the checkpoint's optimizer has {what}. Build the one that the run was trained with."
        )
    saved = {indices[name]: _join(value, tensors) for name, value in tree["state"].items()}
    groups = []
    written_now = plain_groups(optimizer)
    for number, (group, saved_group) in enumerate(zip(now["param_groups"], tree["groups"], strict=True)):
        was, wished = tree["written"][number], written_now[number]
        kept = {
            key: _like(group.get(key), value)
            for key, value in _join(saved_group, tensors).items()
            if was.get(key) == wished.get(key)
        }
        groups.append(group | kept)
    optimizer.load_state_dict({"state": saved, "param_groups": groups})
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for (
        index,
        values,
    ) in saved.items():  # torch casts to the parameter's dtype, which a wider state must not be
        for key, value in values.items() if isinstance(values, dict) else ():
            known = optimizer.state[params[index]]
            if isinstance(value, Tensor) and key in known:
                known[key] = value.to(known[key].device)  # a fused optimizer counts its steps on the device


def joined_trees(trees: list[dict[str, Any]]) -> dict[str, Any]:
    """The tree of an optimizer whose parameters are shared out over pipeline stages.

    Args:
        trees: from `split_state`, one of each rank.
    """
    groups = zip(*(tree["params"] for tree in trees), strict=True)
    return trees[0] | {
        "params": [list(dict.fromkeys(name for own in owns for name in own)) for owns in groups],
        "state": {name: value for tree in trees for name, value in tree["state"].items()},
    }


def part_of(tree: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What of a tree is about the parameters of this rank."""
    mine = set(names)
    return tree | {
        "params": [[name for name in own if name in mine] for own in tree["params"]],
        "state": {name: value for name, value in tree["state"].items() if name in mine},
    }


def _join(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if _TENSOR in value:
            return tensors[value[_TENSOR]]
        return {key: _join(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, tensors) for item in value]
    return value


def _like(now: Any, value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(now, tuple) and isinstance(value, list) else value
