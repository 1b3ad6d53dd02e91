"""Sums of a window, infinities of both signs included."""

import math

import torch

from hemostat.train.window_loss import WindowLoss


def test_infinities_of_both_signs_are_nan_and_no_error():
    loss = WindowLoss()
    loss.add(torch.tensor(math.inf), 1)
    loss.add(torch.tensor(-math.inf), torch.tensor(2))
    total, count = loss.drain()
    assert math.isnan(total) and count == 3.0
    assert loss.drain() == (0.0, 0.0)
