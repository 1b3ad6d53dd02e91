"""Muon: orthogonal updates for matrices, and torch's own Adam for the rest."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="module")
def muon(example):
    return example("muon")


@pytest.mark.parametrize("shape", [(8, 8), (8, 24), (24, 8)])
def test_singular_values_come_near_one(muon, shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(muon.orthogonalised(matrix))
    assert values.min() > 0.4
    assert values.max() < 1.3
    assert torch.allclose(muon.orthogonalised(matrix * 1000), muon.orthogonalised(matrix), atol=1e-4)


def test_the_first_step_has_the_size_of_the_rate(muon):
    weight = torch.nn.Parameter(torch.zeros(16, 4))
    optimizer = muon.Muon([weight], [], lr=0.1, other_lr=1.0)
    weight.grad = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    optimizer.step()
    values = torch.linalg.svdvals(weight.detach()) / (0.1 * 2)  # tall by 4: sqrt(4)
    assert values.min() > 0.4
    assert values.max() < 1.3


def test_other_parameters_move_as_under_torch_adam(muon):
    generator = torch.Generator().manual_seed(0)
    ours = torch.nn.Parameter(torch.randn(5, generator=generator))
    theirs = torch.nn.Parameter(ours.detach().clone())
    optimizer = muon.Muon([], [ours], lr=1.0, other_lr=0.01)
    oracle = torch.optim.Adam([theirs], lr=0.01, betas=(0.9, 0.95))
    for _ in range(5):
        ours.grad = torch.randn(5, generator=generator)
        theirs.grad = ours.grad.clone()
        optimizer.step()
        oracle.step()
    torch.testing.assert_close(ours, theirs)
