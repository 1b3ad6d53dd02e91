"""For people who keep their trainer: each name loads its library on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hemostat.train.callbacks.accelerate import AccelerateRun as AccelerateRun
    from hemostat.train.callbacks.huggingface import HuggingFaceCallback as HuggingFaceCallback
    from hemostat.train.callbacks.lightning import LightningCallback as LightningCallback

_HOMES = {
    "AccelerateRun": "accelerate",
    "HuggingFaceCallback": "huggingface",
    "LightningCallback": "lightning",
}
__all__ = ["AccelerateRun", "HuggingFaceCallback", "LightningCallback"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
