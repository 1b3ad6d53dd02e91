"""A small decoder with every word of a tensor plan, others like it, and three steps of training with them."""

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

from hemostat.train.parallel import fsdp, tp
from hemostat.train.parallel.norm import GradNorm
from hemostat.train.parallel.recompute import recompute
from hemostat.train.parallel.sharded import local
from hemostat.train.update import scale_

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


def same(results: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    for result in results:
        assert result["norms"] == pytest.approx(alone["norms"], rel=1e-11)
        assert result["frozen"] == alone["frozen"]
        assert list(result["weights"]) == list(alone["weights"])
        for name, wanted in alone["weights"].items():
            torch.testing.assert_close(result["weights"][name], wanted, rtol=0, atol=1e-10)
    assert all(result["norms"] == results[0]["norms"] for result in results)  # the same bits
