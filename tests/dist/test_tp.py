"""Matrices shared by N ranks: the same weights, norms and outputs as one process (float64)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from hemostat.errors import FieldError, UnknownNameError
from hemostat.train.parallel import fsdp, tp
from hemostat.train.parallel.norm import GradNorm, scale_
from hemostat.train.parallel.recompute import recompute

VOCAB, ROWS, IGNORE = 67, 4, -100  # 67 does not divide
PLAN = {
    "embedding": "vocab_in",
    "blocks.*.norm": "sequence",
    "blocks.*.attention.query": "colwise",
    "blocks.*.attention.key": "colwise",
    "blocks.*.attention.value": "colwise",
    "blocks.*.attention.query_norm": "heads",
    "blocks.*.attention.out": "rowwise",
    "blocks.*.mlp_norm": "sequence",
    "blocks.*.mlp.up": "colwise",
    "blocks.*.mlp.down": "rowwise",
    "norm": "sequence",
    "head": "vocab_out",
}


class Attention(nn.Module):
    """Views by its own counts of heads; fewer keys and values than queries."""

    def __init__(self, dim: int, num_heads: int, num_kv_heads: int, bias: bool) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, size = num_heads, num_kv_heads, dim // num_heads
        self.query = nn.Linear(dim, dim, bias=bias)
        self.key = nn.Linear(dim, num_kv_heads * size, bias=bias)
        self.value = nn.Linear(dim, num_kv_heads * size, bias=bias)
        self.query_norm = nn.RMSNorm(size)
        self.out = nn.Linear(dim, dim, bias=bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, positions, _ = x.shape
        query = self.query_norm(self.query(x).view(batch, positions, self.num_heads, -1)).transpose(1, 2)
        key = self.key(x).view(batch, positions, self.num_kv_heads, -1).transpose(1, 2)
        value = self.value(x).view(batch, positions, self.num_kv_heads, -1).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, positions, -1))


class Mlp(nn.Module):
    def __init__(self, dim: int, bias: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(3 * dim, dim, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


class Block(nn.Module):
    def __init__(self, dim: int, heads: tuple[int, int], bias: bool) -> None:
        super().__init__()
        self.norm, self.mlp_norm = nn.LayerNorm(dim), nn.RMSNorm(dim)
        self.attention, self.mlp = Attention(dim, *heads, bias), Mlp(dim, bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x), mask=mask)
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    def __init__(self, heads: tuple[int, int] = (4, 4), tied: bool = True, bias: bool = True) -> None:
        super().__init__()
        dim = 16
        self.embedding = nn.Embedding(VOCAB, dim, padding_idx=3)
        self.blocks = nn.ModuleList(Block(dim, heads, bias) for _ in range(2))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB, bias=bias)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=ids.device).tril()
        for block in self.blocks:
            x = block(x, mask=mask)
        return self.head(self.norm(x))


def make(kind: str) -> tuple[nn.Module, dict[str, str]]:
    torch.manual_seed(0)
    if kind == "mlp":
        layers = [nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, VOCAB), nn.Tanh(), nn.Linear(VOCAB, VOCAB)]
        return nn.Sequential(*layers).double(), {"0": "colwise", "2": "rowwise"}
    if kind == "bytegpt":
        sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
        from bytegpt import GPT

        model, plan = GPT(16, 2, 4, 16, 4), {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}
        plan |= {"embedding": "vocab_in", "head": "vocab_out"}
    elif kind in HUGGING_FACE:
        model, plan = hugging_face(kind)
    else:
        heads = (4, 2) if kind == "grouped" else (4, 4)
        model, plan = Decoder(heads, tied=kind != "untied", bias=kind != "grouped"), dict(PLAN)
    model = model.double()
    for param in model.parameters():
        nn.init.normal_(param, std=0.3)
    if kind == "frozen":
        model.requires_grad_(False)
        for part in (model.blocks[0].norm, model.blocks[1].mlp.up, model.blocks[1].attention):
            part.requires_grad_(True)
    if kind == "recomputed":
        recompute(model.blocks, "selective")
    return model, plan


HUGGING_FACE = ("llama", "llama tied", "qwen2", "qwen3", "gpt2")


def hugging_face(kind: str) -> tuple[nn.Module, dict[str, str]]:
    import transformers

    sizes: dict[str, Any] = {
        "vocab_size": VOCAB,
        "tie_word_embeddings": kind in ("llama tied", "qwen3", "gpt2"),
    }
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **sizes
        )
        mlp = {"transformer.h.*.mlp.c_fc": "colwise", "transformer.h.*.mlp.c_proj": "rowwise"}
        return transformers.GPT2LMHeadModel(config), {
            "transformer.wte": "vocab_in",
            "lm_head": "vocab_out",
        } | mlp
    sizes |= {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 48, "head_dim": 8}
    name = {"llama": "Llama", "llama tied": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[kind]
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    layer = "model.layers.*"
    plan = {"model.embed_tokens": "vocab_in", "model.norm": "sequence", "lm_head": "vocab_out"}
    plan |= dict.fromkeys([f"{layer}.self_attn.{part}_proj" for part in "qkv"], "colwise")
    plan |= dict.fromkeys([f"{layer}.mlp.gate_proj", f"{layer}.mlp.up_proj"], "colwise")
    plan |= dict.fromkeys([f"{layer}.self_attn.o_proj", f"{layer}.mlp.down_proj"], "rowwise")
    plan |= dict.fromkeys([f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm"], "sequence")
    plan |= {f"{layer}.self_attn.q_norm": "heads", f"{layer}.self_attn.k_norm": "heads"}
    return model, plan


def make_data(kind: str, positions: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(0, VOCAB, (ROWS, positions), generator=generator)
    targets[0, 0] = IGNORE
    if kind == "mlp":
        return torch.randn(ROWS, positions, 6, generator=generator, dtype=torch.float64), targets
    return torch.randint(0, VOCAB, (ROWS, positions), generator=generator), targets


def full(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def loss_of(output: Any, targets: Tensor) -> Tensor:
    logits = getattr(output, "logits", output).flatten(0, 1)
    return nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE, reduction="sum")


def trained(
    kind: str, positions: int, sizes: dict[str, int] | None = None, sequence: bool = True, loss: bool = True
) -> dict[str, Any]:
    """Three steps of two micro-batches on this rank's rows; without sizes, of all rows on one process."""
    (model, plan), (inputs, targets) = make(kind), make_data(kind, positions)
    shared, norm, num_data = tp.Shared(False, False, ()), GradNorm(1), 1
    if sizes is not None:
        mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        shared = tp.parallelize(model, plan, mesh["tp"], sequence_parallel=sequence, loss_parallel=loss)
        if len(sizes) > 1:
            wrap = fsdp.replicate if sizes["fsdp"] == 1 else fsdp.shard
            wrap(model, list(model.blocks), mesh["dp", "fsdp"])
            num_data = sizes["dp"] * sizes["fsdp"]
        norm, data_rank = GradNorm(dist.get_world_size()), dist.get_rank() // sizes["tp"]
        inputs, targets = inputs[data_rank::num_data], targets[data_rank::num_data]
    params = [param for param in model.parameters() if param.requires_grad]
    optimizer = torch.optim.AdamW(params, 0.01)
    norms = []
    for _ in range(3):
        parts = list(zip(inputs.chunk(2), targets.chunk(2), strict=True))
        for number, (some, some_targets) in enumerate(parts, 1):
            with fsdp.accumulating(model, number == len(parts)), tp.context(shared):
                found = tp.whole(loss_of(model(some), some_targets))
                (found * num_data / ROWS).backward()
        tp.complete_grads(params)
        norms.append(norm(params))
        scale_([param.grad for param in params if param.grad is not None], 0.5 / norms[-1])
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad(), tp.context(shared):
        judged = tp.whole(model(inputs))
    fsdp.reshard(model)
    return {
        "weights": {name: full(param) for name, param in model.named_parameters()},
        "norms": norms,
        "judged": getattr(judged, "logits", judged),
        "shared": tuple(shared),
        "local": sum(local(param).numel() for param in params),
        "frozen": [name for name, param in model.named_parameters() if not param.requires_grad],
    }


def local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def same(results: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    for result in results:
        assert result["norms"] == pytest.approx(alone["norms"], rel=1e-11)
        assert result["frozen"] == alone["frozen"]
        assert list(result["weights"]) == list(alone["weights"])
        for name, wanted in alone["weights"].items():
            torch.testing.assert_close(result["weights"][name], wanted, rtol=0, atol=1e-10)
    assert all(result["norms"] == results[0]["norms"] for result in results)  # the same bits


WAYS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize("positions", [8, 7, 1])
@pytest.mark.parametrize(("sequence", "loss"), WAYS)
def test_two_ranks_equal_one_process(ranks, positions, sequence, loss):
    alone = trained("tied", positions)
    results = ranks(2, trained, "tied", positions, {"tp": 2}, sequence, loss)
    same(results, alone)
    for result in results:
        assert result["shared"] == (sequence, loss, ())
        assert type(result["judged"]) is Tensor
        torch.testing.assert_close(result["judged"], alone["judged"], rtol=0, atol=1e-10)


@pytest.mark.parametrize(("sequence", "loss"), [(False, False), (True, True)])
@pytest.mark.parametrize("kind", ["untied", "grouped", "frozen", "recomputed"])
def test_other_decoders(ranks, kind, sequence, loss):
    same(ranks(2, trained, kind, 7, {"tp": 2}, sequence, loss), trained(kind, 7))


def test_four_ranks_share(ranks):
    alone = trained("tied", 6)
    results = ranks(4, trained, "tied", 6, {"tp": 4})
    same(results, alone)
    whole = sum(tensor.numel() for tensor in alone["weights"].values())
    assert max(result["local"] for result in results) < 0.32 * whole  # norms and rowwise biases are whole


@pytest.mark.parametrize("kind", ["mlp", "bytegpt"])
def test_models_with_parts_that_stay_whole(ranks, kind):
    results = ranks(2, trained, kind, 7, {"tp": 2})
    same(results, trained(kind, 7))
    sequence, _, notes = results[0]["shared"]
    assert not sequence
    assert notes == ("layout.sequence_parallel has no effect: the plan marks no module as 'sequence'",)


@pytest.mark.parametrize("sizes", [{"dp": 1, "fsdp": 2, "tp": 2}, {"dp": 2, "fsdp": 1, "tp": 2}], ids=str)
@pytest.mark.parametrize("sequence", [False, True])
def test_beside_data_parallelism(ranks, sizes, sequence):
    results = ranks(4, trained, "tied", 7, sizes, sequence)
    same(results, trained("tied", 7))


@pytest.mark.slow
@pytest.mark.parametrize(("sequence", "loss"), WAYS)
@pytest.mark.parametrize("kind", HUGGING_FACE)
def test_hugging_face_decoders(ranks, kind, sequence, loss):
    pytest.importorskip("transformers")
    alone = trained(kind, 7)
    results = ranks(2, trained, kind, 7, {"tp": 2}, sequence, loss)
    same(results, alone)
    assert results[0]["shared"][0] == (sequence and kind != "gpt2")


@pytest.mark.slow
def test_hugging_face_beside_fsdp(ranks):
    pytest.importorskip("transformers")
    names = {"blocks": "model.layers"}
    same(ranks(4, trained_layers, "qwen3", {"dp": 1, "fsdp": 2, "tp": 2}, names), trained("qwen3", 7))


def trained_layers(kind: str, sizes: dict[str, int], names: dict[str, str]) -> dict[str, Any]:
    """`trained` of a model whose blocks have another name."""
    module = sys.modules[__name__]
    original = module.make

    def renamed(kind: str) -> tuple[nn.Module, dict[str, str]]:
        model, plan = original(kind)
        object.__setattr__(model, "blocks", model.get_submodule(names["blocks"]))
        return model, plan

    module.make = renamed
    try:
        return trained(kind, 7, sizes)
    finally:
        module.make = original


def middle(is_shared: bool, sequence: bool = True) -> list[Tensor]:
    """A pipeline stage without embedding and head: whole activations enter and leave, gradients too."""
    model, plan = make("tied")
    stage = Stage(model.blocks)
    if is_shared:
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        shared = tp.parallelize(stage, plan, mesh, sequence_parallel=sequence)
        assert shared.sequence_parallel == sequence
        assert not shared.loss_parallel
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 7, 16, generator=generator, dtype=torch.float64, requires_grad=True)
    positions = torch.arange(7)
    with tp.context(tp.Shared(sequence, False, ())):
        output, same_positions = stage(x, positions)
        assert type(output) is Tensor
        assert same_positions is positions
        output.square().sum().backward()
    params = list(stage.parameters())
    tp.complete_grads(params)
    return [output.detach(), x.grad, *(full(param.grad) for param in params)]


class Stage(nn.Module):
    def __init__(self, blocks: nn.ModuleList) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        mask = positions[:, None] >= positions
        for block in self.blocks:
            x = block(x, mask=mask)
        return x, positions


@pytest.mark.parametrize("sequence", [False, True])
def test_a_stage_in_the_middle_of_a_pipeline(ranks, sequence):
    wanted = middle(False)
    for result in ranks(2, middle, True, sequence):
        for seen, expected in zip(result, wanted, strict=True):
            torch.testing.assert_close(seen, expected, rtol=0, atol=1e-10)


def rounded(is_shared: bool) -> list[Tensor]:
    model, plan = make("tied")
    model.float()
    shared = tp.Shared(False, False, ())
    if is_shared:
        shared = tp.parallelize(model, plan, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)))
    ids, targets = make_data("tied", 7)
    with tp.context(shared):
        with torch.autocast("cpu", torch.bfloat16):
            output = model(ids)
        loss = tp.whole(loss_of(output.float(), targets))
        loss.backward()
    params = list(model.parameters())
    tp.complete_grads(params)
    assert {param.grad.dtype for param in params} == {torch.float32}
    return [full(param.grad) for param in params]


def test_autocast(ranks):
    """Sums over ranks are rounded to bfloat16 on their way, so the results agree as bfloat16 does."""
    wanted = rounded(False)
    for result in ranks(2, rounded, True):
        seen, expected = (torch.cat([part.flatten() for part in parts]) for parts in (result, wanted))
        assert (seen - expected).norm() < 0.02 * expected.norm()


def refused(change: str, size: int) -> str:
    model, plan = make("tied")
    if change == "fused":
        model.blocks[0].attention.query = nn.Linear(16, 48)
    if change == "odd width":
        model.blocks[1].mlp = Mlp(15, True)
    if change == "wrong kind":
        plan["blocks.*.mlp"] = "colwise"
    if change == "nothing":
        plan = {"layers.*.up": "colwise", "norm": "sequence"}
    if change == "word":
        plan["norm"] = "columnwise"
    if change == "renorm":
        model.embedding.max_norm = 1.0
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    before = dist.get_world_size()
    try:
        tp.parallelize(model, plan, mesh)
    except (FieldError, UnknownNameError) as error:
        assert dist.get_world_size() == before
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("fused", "tensor_plan.blocks.0.attention.query='colwise': has 48 outputs, and no rowwise matrix"),
        ("odd width", "layout.tp=2: does not divide the 45 outputs of blocks.1.mlp.up"),
        ("wrong kind", "tensor_plan.blocks.0.mlp='colwise': is for a plain torch.nn.Linear"),
        ("nothing", "layout.tp=2: the plan names no matrix of Decoder"),
        ("word", "tensor_plan.norm='columnwise': is not known. Did you mean 'colwise'?"),
        ("renorm", "tensor_plan.embedding='vocab_in': is for a plain torch.nn.Embedding"),
    ],
)
def test_what_cannot_be_shared_is_said_on_all_ranks(ranks, change, words):
    first, second = ranks(2, refused, change, 2)
    assert first == second
    assert first.startswith(words)


def heads() -> str:
    """Widths divide by three, and four heads do not."""
    model = Decoder()
    model.blocks = nn.ModuleList([Block(12, (4, 2), True)])
    try:
        tp.parallelize(model, PLAN, init_device_mesh("cpu", (4,), mesh_dim_names=("tp",)))
    except FieldError as error:
        return str(error)
    return ""


def test_heads_that_do_not_divide(ranks):
    words = set(ranks(4, heads))
    assert len(words) == 1
    assert words.pop().startswith("layout.tp=4: does not divide the 6 outputs of blocks.0.attention.key")


def stray(_: int) -> tuple[str, ...]:
    model, plan = make("tied")
    del plan["norm"]
    return tp.parallelize(model, plan, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))).notes


def test_a_module_that_the_plan_forgets_keeps_positions_whole(ranks):
    wanted = ("layout.sequence_parallel has no effect: the plan does not name norm, which has parameters",)
    assert ranks(2, stray, 0) == [wanted, wanted]
