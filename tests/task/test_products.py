"""Shapes of products, seen from operations as torch calls them."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from hemostat.task.products import Multiplied, is_cheap, products_of


class Seen(TorchDispatchMode):
    """Products of what runs inside, and their operations."""

    def __init__(self, weights):
        super().__init__()
        self.storages = {weight.untyped_storage()._cdata for weight in weights}
        self.products, self.operations = [], []

    def is_weight(self, tensor):
        return tensor.untyped_storage()._cdata in self.storages

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        found = products_of(func, args, result, self.is_weight)
        self.products += found
        self.operations += [func] if found else []
        return result


def products(call, *weights):
    with Seen(weights) as seen:
        call()
    return seen.products


def test_a_linear_layer_has_the_weight_on_the_right():
    layer, x = nn.Linear(4, 6), torch.ones(3, 5, 4)
    assert products(lambda: layer(x), layer.weight) == [Multiplied(15, 4, 6, has_weight=True)]


def test_a_weight_on_the_left_is_the_transposed_product():
    weight, x = torch.ones(6, 4), torch.ones(4, 15)
    assert products(lambda: weight @ x, weight) == [Multiplied(15, 4, 6, has_weight=True)]


def test_scores_of_heads_are_products_without_a_weight():
    query, key = torch.ones(2, 3, 5, 4), torch.ones(2, 3, 7, 4)
    assert products(lambda: query @ key.transpose(-1, -2)) == [Multiplied(5, 4, 7, 6)]


@pytest.mark.parametrize(("causal", "density"), [(True, 0.5), (False, 1.0)])
def test_fused_attention_is_two_products_a_head(causal, density):
    query, key, value = torch.ones(2, 3, 8, 4), torch.ones(2, 3, 8, 4), torch.ones(2, 3, 8, 4)

    def call():
        functional.scaled_dot_product_attention(query, key, value, is_causal=causal)

    assert products(call) == [
        Multiplied(8, 4, 8, 6, density=density),
        Multiplied(8, 8, 4, 6, density=density),
    ]


def test_a_convolution_is_the_product_that_computes_it():
    layer, x = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), torch.ones(5, 4, 8, 8)
    assert products(lambda: layer(x), layer.weight) == [Multiplied(5 * 16, 2 * 9, 3, 2, has_weight=True)]


def test_a_transposed_convolution_has_a_row_per_place_of_its_input():
    layer, x = nn.ConvTranspose2d(4, 6, 2, stride=2), torch.ones(5, 4, 8, 8)
    found = products(lambda: layer(x), layer.weight)
    assert found == [Multiplied(5 * 64, 4, 6 * 4, has_weight=True)]


def test_an_lstm_layer_goes_step_by_step():
    layer, x = nn.LSTM(4, 3, batch_first=True), torch.ones(2, 7, 4)
    found = products(lambda: layer(x), *layer.parameters())
    assert found == [Multiplied(14, 4, 12, has_weight=True), Multiplied(2, 3, 12, 7, has_weight=True)]


def test_selective_recomputation_keeps_the_same_operations_as_the_trainer():
    from hemostat.train.parallel.recompute import KEPT

    assert not any(map(is_cheap, KEPT))
    assert all(map(is_cheap, (torch.ops.aten.bmm.default, torch.ops.aten.add.Tensor)))
