"""Recomputation changes what is kept, and nothing else: gradients, random numbers, running statistics, names."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from hemostat.errors import UnknownNameError
from hemostat.train.parallel.recompute import recompute


class Block(nn.Module):
    """Linear layers, attention, normalisation and dropout."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm = nn.BatchNorm1d(dim)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        mixed = nn.functional.scaled_dot_product_attention(
            *(part.unsqueeze(1) for part in (query, key, value))
        )
        normed = self.norm(mixed.squeeze(1).transpose(1, 2)).transpose(1, 2)
        return x + self.drop(self.out(torch.sin(normed))) * scale


class Net(nn.Module):
    def __init__(self, num_blocks: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(num_blocks))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, scale=0.5)
        return x


def make() -> Net:
    torch.manual_seed(0)
    return Net().double()


def backward(model: nn.Module, num_forwards: int = 1) -> list[Tensor]:
    """Gradients and buffers after a few forward passes and then their backward passes, as a pipeline orders them."""
    torch.manual_seed(5)
    outputs = [model(torch.randn(3, 4, 8, dtype=torch.float64)) for _ in range(num_forwards)]
    for output in outputs:
        output.square().sum().backward()
    return [*(param.grad for param in model.parameters()), *model.buffers()]


def kept_bytes(model: nn.Module, rows: int = 64) -> int:
    """Bytes of the distinct storages that a forward pass keeps for backward, parameters aside."""
    kept: dict[int, int] = {}
    own = {param.untyped_storage().data_ptr() for param in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(torch.randn(3, rows, 8, dtype=torch.float64, requires_grad=True))
    del output
    return sum(kept.values())


@pytest.mark.parametrize("num_forwards", [1, 3])
@pytest.mark.parametrize("kind", ["full", "selective"])
def test_gradients_dropout_and_running_statistics_are_those_without(kind, num_forwards):
    plain, again = make(), make()
    recompute(again.blocks, kind)
    expected = backward(plain, num_forwards)
    for seen, wanted in zip(backward(again, num_forwards), expected, strict=True):
        torch.testing.assert_close(seen, wanted, rtol=0, atol=1e-12)
    assert again.blocks[0].norm.num_batches_tracked == num_forwards


def test_random_numbers_go_on_as_without():
    numbers = []
    for kind in ("none", "full", "selective"):
        model = make()
        recompute(model.blocks, kind)
        backward(model)
        numbers.append(torch.rand(3).tolist())
    assert numbers[0] == numbers[1] == numbers[2]


def test_names_stay():
    model = make()
    recompute(model.blocks, "full")
    assert list(model.state_dict()) == list(make().state_dict())
    assert [name for name, _ in model.named_modules()] == [name for name, _ in make().named_modules()]


def calls(kind: str) -> dict[str, int]:
    """How often each op runs in one forward and backward pass."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            found[str(function)] = found.get(str(function), 0) + 1
            return function(*args, **(kwargs or {}))

    found: dict[str, int] = {}
    model = make()
    recompute(model.blocks, kind)
    with Counter():
        backward(model)
    return found


def test_selective_repeats_no_matrix_product_and_no_attention():
    none, selective, full = calls("none"), calls("selective"), calls("full")
    for op in ("aten.addmm.default", "aten._scaled_dot_product_flash_attention_for_cpu.default"):
        assert none[op] == selective[op] < full[op]
    assert none["aten.sin.default"] < selective["aten.sin.default"] == full["aten.sin.default"]


def test_full_keeps_the_inputs_of_blocks_only():
    plain, full = make(), make()
    recompute(full.blocks, "full")
    inputs = 2 * 3 * 64 * 8 * 8  # of two blocks, float64
    assert kept_bytes(full) <= inputs < kept_bytes(plain) / 5


def test_a_block_that_works_in_place_is_repeated_whole():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)).double()
    again = copy.deepcopy(plain)
    recompute([again], "selective")
    x = torch.randn(5, 4, dtype=torch.float64)
    plain(x).square().sum().backward()
    again(x).square().sum().backward()
    for seen, wanted in zip(again.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(seen.grad, wanted.grad, rtol=0, atol=1e-12)


def test_a_copy_computes_with_its_own_weights():
    model = make()
    recompute(model.blocks, "full")
    other = copy.deepcopy(model)
    with torch.no_grad():
        for param in other.parameters():
            param.zero_()
    other.eval()
    x = torch.randn(2, 4, 8, dtype=torch.float64)
    assert torch.equal(other(x), x)


def test_a_block_that_is_named_twice_is_wrapped_once():
    model = make()
    recompute([model.blocks[0], model.blocks[0], model.blocks[1]], "full")
    for seen, wanted in zip(backward(model), backward(make()), strict=True):
        torch.testing.assert_close(seen, wanted, rtol=0, atol=1e-12)


def test_no_gradients_no_repetition():
    model = make().eval()
    recompute(model.blocks, "full")
    with torch.no_grad():
        assert not model(torch.randn(2, 4, 8, dtype=torch.float64)).requires_grad


def test_a_traced_stage_works_too():
    model = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Tanh()).double())
    recompute([model], "full")
    model(torch.randn(5, 4, dtype=torch.float64)).sum().backward()
    assert model.get_parameter("0.weight").grad.abs().sum() > 0


def test_unknown_kind():
    with pytest.raises(UnknownNameError, match=r"layout\.recompute='half': is not known"):
        recompute([], "half")
