"""Blocks are compiled in place, with the gradients that they had."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from hemostat.errors import EnvironmentFailure
from hemostat.train.parallel import compiled
from hemostat.train.parallel.compiled import compile_blocks
from hemostat.train.parallel.recompute import recompute

CPU = torch.device("cpu")


def make() -> nn.Sequential:
    torch.manual_seed(0)
    parts = ((nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()) for _ in range(2))
    return nn.Sequential(*(nn.Sequential(*part) for part in parts)).double()


def results(model: nn.Module) -> list[torch.Tensor]:
    model(torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4)).square().sum().backward()
    return [*(param.grad for param in model.parameters()), *model.buffers()]


@pytest.mark.parametrize("kind", ["none", "selective", "full"])
def test_gradients_running_statistics_and_names_stay(kind):
    plain, model = make(), make()
    recompute(model, kind)
    compile_blocks([*model, model[0]], CPU, backend="aot_eager")
    for seen, wanted in zip(results(model), results(plain), strict=True):
        torch.testing.assert_close(seen, wanted, rtol=0, atol=1e-12)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert all(block._compiled_call_impl is not None for block in model)


def test_a_machine_without_compiler_is_told_at_once(monkeypatch):
    model = make()

    def broken(function, backend):
        def fail(_):
            raise RuntimeError("\nno working C++ compiler\nfound in a b c")

        return fail

    monkeypatch.setattr(compiled.torch, "compile", broken)
    with pytest.raises(EnvironmentFailure, match="torch cannot compile here: no working C") as caught:
        compile_blocks(model, CPU)
    assert "g++" in str(caught.value)
    assert all(block._compiled_call_impl is None for block in copy.deepcopy(model))


@pytest.mark.slow
def test_the_compiler_of_this_machine(monkeypatch, tmp_path):
    """Without a compiler on the path, torch's own words come back."""
    monkeypatch.setenv("CXX", "/nowhere/g++")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert compiled.compiler_trouble(CPU) != ""
