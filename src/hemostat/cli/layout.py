"""`--layout`: read and checked before a process is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hemostat.config import decode, merge
from hemostat.errors import FieldError
from hemostat.plan import Layout


def read_layout(text: str) -> dict[str, Any]:
    """The table that the flag stands for.

    Raises:
        FieldError: not `axis=number,axis=number`, or "auto".
    """
    if text.strip() == "auto":
        raise FieldError(
            "layout",
            "auto",
            "needs `hemostat plan`, which predicts memory and speed of each layout and is not there yet",
            'Name the axes, such as --layout "fsdp=2"; docs/layouts.md says which one when.',
        )
    return Layout.values(text)


def with_layout(values: Mapping[str, Any], axes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings with a layout in the place of the one that they have; axes of two layouts are not mixed."""
    if axes is None:
        return dict(values)
    train = {name: value for name, value in values.get("train", {}).items() if name != "layout"}
    return merge({**values, "train": train}, {"train": {"layout": axes}})


def processes_of(axes: Mapping[str, Any]) -> int:
    """The least number of processes that a layout asks for."""
    return _decoded(axes).num_ranks


def check_layout(num_ranks: int, axes: Mapping[str, Any]) -> int:
    """The number of processes itself, if the layout is one of so many.

    Raises:
        FieldError: its product is another number, or a part cannot be meant.
    """
    _decoded(axes).filled(num_ranks)
    return num_ranks


def _decoded(axes: Any) -> Layout:
    if not isinstance(axes, Mapping):
        raise FieldError(
            "layout", axes, "is a section, not a value", "Write it like --set train.layout.fsdp=2."
        )
    return decode(Layout, axes, prefix="layout.")
