"""The random generators of one rank as plain values: torch's, numpy's and the standard library's."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

RNG_FORM: Final = {"python": [], "numpy": [], "torch": "", "cuda": ""}


def rng_state(device: torch.device) -> dict[str, Any]:
    """What the generators of this process stand at, fit for JSON.

    Args:
        device: where the model lives; an accelerator has a generator of its own.
    """
    import numpy as np

    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": _text(torch.get_rng_state()),
    }
    if device.type == "cuda":
        state["cuda"] = _text(torch.cuda.get_rng_state(device))
    return state


def set_rng_state(state: dict[str, Any], device: torch.device) -> None:
    """Put the generators back to `rng_state`; that of an accelerator only where there was one.

    Examples:
        >>> cpu = torch.device("cpu")
        >>> before = rng_state(cpu)
        >>> first = (random.random(), torch.rand(1).item())
        >>> set_rng_state(before, cpu)
        >>> (random.random(), torch.rand(1).item()) == first
        True
    """
    import numpy as np

    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(_tensor(state["torch"]))
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(_tensor(state["cuda"]), device)


@contextmanager
def generators_kept(device: torch.device) -> Iterator[None]:
    """Restore the states of random, numpy.random and torch, that of an accelerator too."""
    before = rng_state(device)
    try:
        yield
    finally:
        set_rng_state(before, device)


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
