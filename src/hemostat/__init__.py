"""hemostat: take a model from one device to many; the names below load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hemostat.recipe import Base as Base
    from hemostat.task import Task as Task
    from hemostat.train import Session as Session
    from hemostat.train import load as load
    from hemostat.train import prepare as prepare

__version__ = "0.1.0"
_HOMES = {
    "Base": "hemostat.recipe",
    "Session": "hemostat.train",
    "Task": "hemostat.task",
    "load": "hemostat.train",
    "prepare": "hemostat.train",
}
__all__ = ["Base", "Session", "Task", "__version__", "load", "prepare"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hemostat' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
