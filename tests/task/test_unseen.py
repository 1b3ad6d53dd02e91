"""Workspaces of the CPU's LSTM kernel: as large as the kernel makes them."""

import pytest
import torch
from torch import nn

from hemostat.task.unseen import unseen_bytes

_LAYER = torch.ops.aten.mkldnn_rnn_layer


def called(steps, samples, width, hidden, training=True):
    weights = [weight.detach() for weight in nn.LSTM(width, hidden).parameters()]
    states = torch.zeros(samples, hidden), torch.zeros(samples, hidden)
    flags = False, [], 2, hidden, 1, True, False, True, training
    return torch.zeros(steps, samples, width), *weights, *states, *flags


# narrow, rows that are padded, more input than state, and less
@pytest.mark.parametrize("size", [(20, 2, 4, 8), (32, 1, 128, 512), (16, 4, 300, 48), (64, 8, 96, 160)])
def test_the_workspace_is_as_large_as_the_kernel_makes_it(size):
    args = called(*size)
    workspace = _LAYER(*args)[3]
    # the kernel's own layout depends on the instructions of the machine; a page or two must not fail this
    assert unseen_bytes(_LAYER.default, args) == pytest.approx(workspace.nbytes, rel=0.03)


def test_without_training_and_elsewhere_there_is_none():
    assert unseen_bytes(_LAYER.default, called(4, 2, 8, 8, training=False)) == 0
    assert unseen_bytes(torch.ops.aten.mm.default, (torch.ones(2, 2), torch.ones(2, 2))) == 0
