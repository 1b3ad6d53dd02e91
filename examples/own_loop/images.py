"""What the scripts of this folder train on: scikit-learn's digits, and a small classifier of them."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset


def digits(num: int = 600) -> TensorDataset:
    """The first images, pixels from 0 to 1, with the digit each shows."""
    found = load_digits()
    return TensorDataset(
        torch.tensor(found.data[:num], dtype=torch.float32) / 16, torch.tensor(found.target[:num])
    )


def classifier() -> nn.Module:
    """64 pixels in, 10 logits out; the same weights at every call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


@torch.no_grad()
def mean_loss(model: nn.Module, data: TensorDataset) -> float:
    """Cross-entropy over all images."""
    images, targets = data.tensors
    return float(functional.cross_entropy(model(images), targets))
