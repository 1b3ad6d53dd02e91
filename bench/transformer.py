"""The decoder that the benchmarks of memory train, of any size, and its task: tokens that are counted, not read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from hemostat.task import Task


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Size of a model and of its samples.

    Attributes:
        dim: width of the activations between blocks.
        num_blocks: each of attention and a feed-forward part of width 4 * dim, 12 * dim**2 parameters.
        num_heads: of attention.
        num_words: rows of embedding and head.
        positions: tokens of a sample.
    """

    dim: int
    num_blocks: int
    num_heads: int
    num_words: int
    positions: int

    def __str__(self) -> str:
        """For the note of a figure."""
        return (
            f"{self.num_blocks} blocks of width {self.dim}, {self.num_heads} heads, {self.num_words} words, "
            f"{self.positions} positions"
        )


class Attention(nn.Module):
    """Causal, with query, key and value apart, so that tensor parallelism can cut them by heads."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.num_heads = shape.num_heads
        self.query, self.key, self.value, self.out = (nn.Linear(shape.dim, shape.dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, positions, dim), unchanged."""
        query, key, value = (
            matrix(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for matrix in (self.query, self.key, self.value)
        )
        read = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(read.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Up, GELU, down."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, positions, dim), unchanged."""
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    """Both parts, each behind a norm and beside a shortcut."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(shape.dim), nn.LayerNorm(shape.dim)
        self.attention, self.feed_forward = Attention(shape), FeedForward(shape.dim)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, positions, dim), unchanged."""
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


class Transformer(nn.Module):
    """Token ids to logits; the causal mask alone tells positions apart."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.num_words, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.num_blocks))
        self.norm = nn.LayerNorm(shape.dim)
        self.head = nn.Linear(shape.dim, shape.num_words, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """int64 of shape (batch, positions) -> shape (batch, positions, num_words)."""
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Tokens(Dataset[tuple[Tensor, Tensor]]):
    """Tokens and those that follow, made when they are asked for: they take no memory, however many there are."""

    def __init__(self, shape: Shape, num_samples: int) -> None:
        self._shape = shape
        self._num_samples = num_samples

    def __len__(self) -> int:
        return self._num_samples

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        places = torch.arange(index, index + self._shape.positions + 1)
        tokens = places * (places + index) % self._shape.num_words
        return tokens[:-1], tokens[1:]


class Words(Task):
    """Tokens that follow tokens.

    Attributes:
        shape: of model and samples.
        num_samples: of the data.
        device: where the weights are drawn; large ones take seconds on the CPU.
    """

    shape: Shape
    num_samples: int
    device: str = "cpu"

    def model(self) -> nn.Module:
        """The same weights every time."""
        torch.manual_seed(0)
        with torch.device(self.device):
            return Transformer(self.shape)

    def train_data(self) -> Tokens:
        """The same tokens every time."""
        return Tokens(self.shape, self.num_samples)

    def loss(self, output: Tensor, target: Tensor) -> tuple[Tensor, int]:
        """Sum of the cross-entropy, and over how many tokens."""
        loss = functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum")
        return loss, target.numel()

    def tensor_plan(self, model: nn.Module) -> dict[str, str]:
        """What ranks of tensor parallelism share."""
        parts = {"query": "colwise", "key": "colwise", "value": "colwise", "out": "rowwise"}
        return {
            "embedding": "vocab_in",
            "blocks.*.norm_*": "sequence",
            **{f"blocks.*.attention.{name}": word for name, word in parts.items()},
            "blocks.*.feed_forward.up": "colwise",
            "blocks.*.feed_forward.down": "rowwise",
            "norm": "sequence",
            "head": "vocab_out",
        }
