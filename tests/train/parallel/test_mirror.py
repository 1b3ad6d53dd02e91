"""A mirror has some of a module's parts, as the same objects under the same names."""

import copy

import torch
from torch import nn

from hemostat.task import evaluation_mode
from hemostat.train.parallel.mirror import Mirror


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain, self.other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("cache", torch.zeros(2), persistent=False)
        self.plain, self.unseen = torch.ones(1), torch.ones(1)
        self.inner = nn.Module()
        self.inner.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(12))


NAMES = {"gain", "mean", "cache", "plain", "inner.layers.1", "inner.layers.10.weight"}


def test_it_has_what_was_named_and_nothing_else():
    net = Net()
    mirror = Mirror(net, NAMES)
    names = ["gain", "inner.layers.1.weight", "inner.layers.1.bias", "inner.layers.10.weight"]
    assert [name for name, _ in mirror.named_parameters()] == names
    assert all(net.get_parameter(name) is param for name, param in mirror.named_parameters())
    assert mirror.state_dict().keys() == {*names, "mean"}
    assert [name for name, _ in mirror.named_buffers()] == ["mean", "cache"]
    assert mirror.plain is net.plain
    assert not hasattr(mirror, "other") and not hasattr(mirror, "unseen")
    assert mirror.inner.layers.get_submodule("1") is net.inner.layers[1]


def test_replaced_parts_are_replaced_in_the_original():
    net = Net()
    mirror = Mirror(net, NAMES)
    mirror.gain = nn.Parameter(torch.zeros(2))
    mirror.mean = torch.ones(2)
    mirror.double()
    assert net.gain is mirror.gain and net.mean is mirror.mean
    assert net.gain.dtype == net.inner.layers[10].weight.dtype == torch.float64
    assert net.other.dtype == torch.float32
    del net.gain  # what the original has lost does not come back
    mirror.gain = nn.Parameter(torch.zeros(2))
    assert not hasattr(net, "gain")


def test_the_mode_is_one():
    net = Net().eval()
    mirror = Mirror(net, NAMES)
    assert not net.training and not mirror.training
    net.train()
    assert mirror.training and mirror.inner.training and mirror.get_submodule("inner.layers.1").training
    with evaluation_mode(mirror):
        assert not net.training and not net.inner.layers[1].training and net.inner.layers[2].training
    assert net.training and net.inner.layers[1].training


def test_a_copy_is_apart():
    net = Net()
    mirror = Mirror(net, NAMES)
    other = copy.deepcopy(mirror)
    other.gain = nn.Parameter(torch.zeros(2))
    other.eval()
    assert net.training and torch.equal(net.gain, torch.ones(2))
