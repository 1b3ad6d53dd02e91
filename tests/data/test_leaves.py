"""Leaves: every tensor of a tree, and the images among them."""

import torch

from hemostat.data.leaves import float_images, tensors


def test_every_tensor_of_a_tree_and_nothing_else():
    tree = {"a": (torch.zeros(1), [torch.zeros(2)]), "b": "text", "c": 3}
    assert [leaf.numel() for leaf in tensors(tree)] == [1, 2]


def test_images_are_large_floats_of_four_dimensions():
    small, large = torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 8, 8)
    assert float_images([small, {"x": large}, torch.zeros(2, 10_000)]) is large
    assert float_images([large.to(torch.uint8), torch.zeros(2, 5)]) is None
