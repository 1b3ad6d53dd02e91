"""Shards on N ranks, copies of shards, and copies that DDP cannot make: the same weights as one process (float64)."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from hemostat.errors import FieldError
from hemostat.train.parallel import fsdp
from hemostat.train.parallel.norm import GradNorm
from hemostat.train.parallel.recompute import recompute
from hemostat.train.parallel.sharded import local
from hemostat.train.update import scale_

VOCAB, ROWS = 67, 8  # neither divides


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    """Tied embedding and head, three blocks, a buffer."""

    def __init__(self, dim: int = 10, num_blocks: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(num_blocks))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("temperature", torch.tensor(0.7))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) / self.temperature


def make(change: str = "") -> Net:
    torch.manual_seed(0)
    model = Net().double()
    if change == "frozen block":
        model.blocks[1].requires_grad_(False)
    if change == "frozen part":
        model.blocks[1].up.requires_grad_(False)
    if change == "same block twice":
        model.blocks[2] = model.blocks[0]
    if change == "tied blocks":
        model.blocks[2].up.weight = model.blocks[0].up.weight
    if change == "recomputed":
        recompute(model.blocks, "full")
    return model


def make_data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids, targets = torch.randint(0, VOCAB, (2, ROWS, 5), generator=generator)
    return ids, targets


def mesh_of(sizes: dict[str, int]) -> DeviceMesh:
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    axes = tuple(axis for axis in ("dp", "fsdp") if axis in sizes)
    return mesh[axes] if len(axes) > 1 else mesh[axes[0]]


def full(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def trained(
    sizes: dict[str, int] | None, optimizer: str, num_micro: int, change: str = ""
) -> dict[str, object]:
    """Three steps on this rank's rows; without sizes, of all rows on one process."""
    model, (ids, targets) = make(change), make_data()
    num_ranks, norm = 1, GradNorm(1)
    if sizes is not None:
        mesh = mesh_of(sizes)
        wrap = fsdp.replicate if sizes["fsdp"] == 1 else fsdp.shard
        wrap(model, list(model.blocks), mesh)
        num_ranks, norm = mesh.size(), GradNorm(dist.get_world_size())
        ids, targets = ids[dist.get_rank() :: num_ranks], targets[dist.get_rank() :: num_ranks]
    params = [param for param in model.parameters() if param.requires_grad]
    steps = torch.optim.SGD(params, 0.3, 0.9) if optimizer == "sgd" else torch.optim.AdamW(params, 0.01)
    norms = []
    for _ in range(3):
        parts = list(zip(ids.chunk(num_micro), targets.chunk(num_micro), strict=True))
        for number, (some_ids, some_targets) in enumerate(parts, 1):
            with fsdp.accumulating(model, number == num_micro):
                loss = loss_of(model(some_ids), some_targets) * num_ranks / ROWS
                loss.backward()
        norms.append(norm(params))
        scale_([param.grad for param in params], 0.5 / norms[-1])
        steps.step()
        steps.zero_grad()
    return {
        "weights": {name: full(param) for name, param in model.named_parameters()},
        "norms": norms,
        "share": sum(local(param).numel() for param in params) / sum(param.numel() for param in params),
    }


def loss_of(output: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten(), reduction="sum")


SIZES = [{"fsdp": 2}, {"dp": 2, "fsdp": 1}, {"dp": 2, "fsdp": 2}, {"fsdp": 4}]


def same(results: list[dict[str, object]], alone: dict[str, object]) -> None:
    for result in results:
        assert result["norms"] == pytest.approx(alone["norms"], rel=1e-12)
        assert list(result["weights"]) == list(alone["weights"])
        for name, wanted in alone["weights"].items():
            torch.testing.assert_close(result["weights"][name], wanted, rtol=0, atol=1e-10)
    assert all(result["norms"] == results[0]["norms"] for result in results)  # the same bits


@pytest.mark.parametrize("num_micro", [1, 2])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_ranks_equal_one_process(ranks, sizes, optimizer, num_micro):
    num_ranks = sizes.get("dp", 1) * sizes["fsdp"]
    results = ranks(num_ranks, trained, sizes, optimizer, num_micro)
    same(results, trained(None, optimizer, 1))
    assert sum(result["share"] for result in results) / num_ranks == pytest.approx(1 / sizes["fsdp"])


@pytest.mark.parametrize(
    "change", ["frozen block", "frozen part", "same block twice", "tied blocks", "recomputed"]
)
@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_unusual_models(ranks, sizes, change):
    same(ranks(2, trained, sizes, "adamw", 2, change), trained(None, "adamw", 1, change))


def memory() -> dict[str, float]:
    """Bytes on this rank over those of the whole model, at each moment of a step."""
    model, (ids, targets) = make(), make_data()
    whole = sum(param.numel() for param in model.parameters()) * 8
    fsdp.shard(model, list(model.blocks), mesh_of({"fsdp": 2}), reshard=True)
    optimizer = torch.optim.AdamW(model.parameters())
    found = {}
    for number in (1, 2):
        with fsdp.accumulating(model, number == 2):
            loss_of(model(ids), targets).backward()
        found[f"gradients after micro-batch {number}"] = bytes_of(param.grad for param in model.parameters())
    optimizer.step()
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    found["parameters"] = bytes_of(model.parameters())
    found["optimizer state"] = bytes_of(value for value in state if isinstance(value, DTensor)) / 2
    return {name: size / whole for name, size in found.items()}


def bytes_of(tensors) -> int:
    storages = [local(tensor).untyped_storage() for tensor in tensors]  # the gradients of a unit lie in one
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def test_a_rank_holds_half_of_everything(ranks):
    for result in ranks(2, memory):
        assert result == pytest.approx(dict.fromkeys(result, 0.5), abs=0.02)


def evaluated(keep: bool) -> list[object]:
    """Forward passes without gradients, then what is registered, then one step."""
    model, (ids, targets) = make(), make_data()
    fsdp.shard(model, list(model.blocks), mesh_of({"fsdp": 2}), reshard=not keep)
    with torch.no_grad():
        first = [model(ids), model(ids[:3])]
    fsdp.reshard(model)
    kinds = {type(value) for value in [*model.state_dict().values()]}
    shared = all(isinstance(param, DTensor) for param in model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss_of(model(ids), targets).backward()
    optimizer.step()
    with torch.no_grad():
        return [*first, model(ids), shared, kinds == {DTensor, Tensor}]


@pytest.mark.parametrize("keep", [False, True])
def test_evaluation_leaves_shards_behind(ranks, keep):
    model, (ids, targets) = make(), make_data()
    with torch.no_grad():
        wanted = [model(ids), model(ids[:3])]
    loss_of(model(ids), targets).backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    with torch.no_grad():
        wanted.append(model(ids))
    for *outputs, shared, kinds in ranks(2, evaluated, keep):
        assert shared and kinds
        for output, expected in zip(outputs, wanted, strict=True):
            torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)


def piped(sizes: dict[str, int] | None, keep: bool) -> list[Tensor]:
    """Two forward passes before the first backward pass, as in a pipeline."""
    model, (ids, targets) = make(), make_data()
    if sizes:
        fsdp.shard(model, list(model.blocks), mesh_of(sizes), reshard=not keep)
        ids, targets = ids[dist.get_rank() :: 2], targets[dist.get_rank() :: 2]
    outputs = [model(some) for some in ids.chunk(2)]
    for number, (output, some) in enumerate(zip(outputs, targets.chunk(2), strict=True)):
        with fsdp.accumulating(model, number == 1):
            loss_of(output, some).backward()
    return [full(param.grad) * (2 if sizes else 1) for param in model.parameters()]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("sizes", SIZES[:2], ids=str)
def test_several_forward_passes_before_backward(ranks, sizes, keep):
    wanted = piped(None, keep)
    for result in ranks(2, piped, sizes, keep):
        for seen, expected in zip(result, wanted, strict=True):
            torch.testing.assert_close(seen, expected, rtol=0, atol=1e-12)


def rounded(dtype: torch.dtype, is_sharded: bool) -> tuple[list[Tensor], set[torch.dtype]]:
    model, (ids, targets) = make().float(), make_data()
    if is_sharded:
        fsdp.shard(model, list(model.blocks), mesh_of({"fsdp": 2}))
    for some_ids, some_targets in zip(ids.chunk(2), targets.chunk(2), strict=True):
        with torch.autocast("cpu", dtype):
            loss = loss_of(model(some_ids).float(), some_targets)
        loss.backward()
    grads = [param.grad for param in model.parameters()]
    return [full(grad) for grad in grads], {grad.dtype for grad in grads} | {
        p.dtype for p in model.parameters()
    }


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_rounds_as_on_one_process(ranks, dtype):
    """The ranks see the same rows, so the average is what one of them has."""
    wanted, _ = rounded(dtype, False)
    for grads, dtypes in ranks(2, rounded, dtype, True):
        assert dtypes == {torch.float32}
        for seen, expected in zip(grads, wanted, strict=True):
            torch.testing.assert_close(seen, expected, rtol=1e-5, atol=1e-6)


def overflowing() -> list[object]:
    """A value that is not finite in the gradient of one rank."""
    model, (ids, targets) = make().float(), make_data()
    fsdp.shard(model, list(model.blocks), mesh_of({"fsdp": 2}))
    loss_of(model(ids), targets).backward()
    grad = model.blocks[1].up.weight.grad.to_local()
    if dist.get_rank() == 1:
        grad[-1, -1] = torch.inf
    return [GradNorm(2)(list(model.parameters()))]


def test_an_infinite_value_on_one_rank_is_seen_on_all(ranks):
    assert ranks(2, overflowing) == [[torch.inf], [torch.inf]]


def refused(kind: str) -> str:
    model = make()
    if kind == "scalar":
        model.scale = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    if kind == "dtypes":
        model.blocks[1].up.float()
    try:
        fsdp.shard(model, list(model.blocks), mesh_of({"fsdp": 2}))
    except FieldError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("scalar", "layout.fsdp='scale': is a parameter without dims"),
        (
            "dtypes",
            "layout.fsdp='blocks.1.down.weight': is float64 and blocks.1.up.weight, in the same block",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_said_on_all_ranks(ranks, kind, words):
    first, second = ranks(2, refused, kind)
    assert first == second
    assert first.startswith(words)


def test_nothing_happens_to_a_model_that_is_not_sharded():
    model = make()
    with fsdp.accumulating(model, False), nullcontext():
        loss_of(model(make_data()[0]), make_data()[1]).backward()
    fsdp.reshard(model)
    assert all(param.grad is not None for param in model.parameters())
