"""`compile_blocks`: torch.compile for each block of a model, in place."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from hemostat.errors import EnvironmentFailure


def compile_blocks(blocks: Iterable[nn.Module], device: torch.device, backend: str = "inductor") -> None:
    """Compile each block at its first call; names of modules and parameters stay.

    One block is compiled at a time, because blocks of one kind are then compiled once, and what shares out a model
    works between them.

    Args:
        blocks: modules of the model; tensor parallelism and recomputation come before this, sharding after it.
        device: where they run.
        backend: of torch.compile.

    Raises:
        EnvironmentFailure: torch cannot compile on this machine; said before the first step.
    """
    trouble = compiler_trouble(device, backend)
    if trouble:
        raise EnvironmentFailure(
            f"layout.compile=true: torch cannot compile here: {trouble} Install a C++ compiler (g++), on a GPU "
            "triton too, or leave it out."
        )
    seen: set[int] = set()
    for block in blocks:
        if id(block) not in seen:
            seen.add(id(block))
            block.compile(backend=backend)


def compiler_trouble(device: torch.device, backend: str = "inductor") -> str:
    """Why torch.compile fails on this machine, found by compiling one addition; empty where it works."""
    try:
        torch.compile(_plus_one, backend=backend)(torch.zeros(2, device=device))
    except RuntimeError as error:  # torch's compiler errors are of this kind, and so is a missing triton
        return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return ""


def _plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1
