"""An input-bound run, and the same run once its advice was followed: packed scans that are costly to decode.

`hemostat train examples/input_bound.py:Scans` ends with how long it waited for data and what to do about it;
`hemostat data probe examples/input_bound.py:Scans` measures what each way would gain;
`hemostat data prepare examples/input_bound.py:Scans --out scans` follows the advice: it decodes each scan once;
`hemostat train examples/input_bound.py:Scans --set prepared=scans` gathers them from that copy.
"""

from __future__ import annotations

import bz2

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

import hemostat
from hemostat.data import PreparedData

SHAPE = (3, 96, 96)  # one scan: channels, height, width, uint8


def draw(rng: np.random.Generator, label: int) -> np.ndarray:
    """A scan whose brightness wanders along its rows (label 0) or its columns (label 1)."""
    steps = rng.normal(0, 3, SHAPE)
    return np.clip(128 + np.cumsum(steps, axis=2 if label == 0 else 1), 0, 255).astype(np.uint8)


class Packed(Dataset):
    """Scans as they came: packed one by one, unpacked each time one is asked for."""

    def __init__(self, num_scans: int) -> None:
        rng = np.random.default_rng(0)
        self.labels = torch.arange(num_scans) % 2
        self.packed = [bz2.compress(draw(rng, label).tobytes()) for label in self.labels.tolist()]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pixels = bytearray(bz2.decompress(self.packed[index]))
        return torch.frombuffer(pixels, dtype=torch.uint8).view(SHAPE), self.labels[index]


class Pixels(nn.Module):
    """Bytes travel to the device; there they become numbers around 0."""

    def forward(self, scans: Tensor) -> Tensor:
        return scans.float() / 128 - 1


class Scans(hemostat.Task):
    """Rows or columns? A small convolution decides."""

    prepared: str = ""  # folder of a copy; without one the scans are decoded each time
    num_scans: int = 512
    optimizer: str = "adamw"
    lr: float = 0.003
    tuned_batch: int = 32
    epochs: float = 6

    def model(self) -> nn.Module:
        """Two logits."""
        return nn.Sequential(
            Pixels(),
            nn.Conv2d(3, 8, 5, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 2),
        )

    def train_data(self) -> Packed | PreparedData:
        """As they came, or decoded once."""
        return PreparedData(self.prepared) if self.prepared else Packed(self.num_scans)

    def loss(self, output: Tensor, target: Tensor) -> tuple[Tensor, int]:
        """(summed cross-entropy, scans)."""
        return functional.cross_entropy(output, target, reduction="sum"), len(target)
