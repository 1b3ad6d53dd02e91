"""Digits: a small network on scikit-learn's 8x8 digits with SGD, the task of the README."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import hemostat

NUM_TRAIN = 1437  # of 1797; the rest is for validation


def load() -> tuple[TensorDataset, TensorDataset]:
    """Training and validation images, shuffled once with a seed of their own; pixels from 0 to 1."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    targets = torch.tensor(digits.target)[order]
    return (
        TensorDataset(images[:NUM_TRAIN], targets[:NUM_TRAIN]),
        TensorDataset(images[NUM_TRAIN:], targets[NUM_TRAIN:]),
    )


class Digits(hemostat.Task):
    """What works on one device: SGD with momentum at batch 16."""

    width: int = 64
    optimizer: str = "sgd"
    lr: float = 0.05
    momentum: float = 0.9
    tuned_batch: int = 16
    epochs: float = 10
    schedule: str = "cosine"
    warmup_steps: int = 90  # one epoch
    eval_every_samples: int = 1437

    def model(self) -> nn.Module:
        """64 pixels in, 10 logits out."""
        return nn.Sequential(nn.Linear(64, self.width), nn.ReLU(), nn.Linear(self.width, 10))

    def train_data(self) -> TensorDataset:
        """1437 images."""
        return load()[0]

    def val_data(self) -> TensorDataset:
        """360 images."""
        return load()[1]

    def loss(self, output: Tensor, target: Tensor) -> tuple[Tensor, int]:
        """(summed cross-entropy, images)."""
        return functional.cross_entropy(output, target, reduction="sum"), len(target)

    def metrics(self, output: Tensor, target: Tensor) -> dict[str, tuple[Tensor, int]]:
        """Share of images that are read right."""
        return {"accuracy": ((output.argmax(dim=1) == target).sum(), len(target))}
