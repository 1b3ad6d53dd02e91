"""Shifted digits: random augmentation that is the same in any process, in any worker and after a resume."""

from __future__ import annotations

from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from digits import Digits, load
from hemostat.data import sample_rng

SIDE = 8  # pixels


class Shifted(Dataset[tuple[Tensor, Tensor]]):
    """Images moved by up to one pixel each way, another way at each epoch.

    Args:
        images: flat images and their targets.
    """

    def __init__(self, images: TensorDataset) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, target = self.images[index]
        down, right = sample_rng(index).integers(-1, 2, size=2).tolist()
        return image.reshape(SIDE, SIDE).roll((down, right), dims=(0, 1)).flatten(), target


class ShiftedDigits(Digits):
    """The task of `digits.py`, with more to see."""

    def train_data(self) -> Shifted:
        """1437 images, shifted."""
        return Shifted(load()[0])
