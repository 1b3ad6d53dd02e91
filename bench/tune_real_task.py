"""The byte-level model of the demo, small and short, with the AdamW that most people tune."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from bytegpt import ByteGPT


class TunedByteGPT(ByteGPT):
    """What bench/tune_real.py tunes: rate, batch, warm-up, weight decay."""

    dim: int = 64
    num_layers: int = 2
    window: int = 128
    lr: float = 3e-3
    weight_decay: float = 0.01
    tuned_batch: int = 16
    total_samples: int = 960
    warmup_steps: int = 4
    eval_every_samples: int = 96

    def optimizer(self, params: Iterable[Tensor]) -> torch.optim.Optimizer:
        """One rate for all, with decay."""
        return torch.optim.AdamW(params, lr=self.lr, weight_decay=self.weight_decay)
