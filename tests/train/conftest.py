"""A checkpoint of a bare model, for the tests of whatever reads one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hemostat.train.checkpoint import Saver, State
from hemostat.train.process import World


def save_model(run_dir: Path, model: torch.nn.Module, step: int, *, best: bool = False) -> Path:
    """Save the weights of a model as the checkpoint of a step; the folder of it comes back."""
    saver = Saver(World(), run_dir, keep=9)
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    saver.save(State(tensors, {"step": step, "samples": 8 * step}, {}), best=best)
    saver.close()
    return run_dir / "checkpoints" / f"step-{step:09d}"


@pytest.fixture(name="save_model")
def _save_model():
    return save_model
