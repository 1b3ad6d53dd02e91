"""ByteGPT: a small GPT that reads and writes single bytes, trained on the source of Python's standard library."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import stdlib_corpus as corpus
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hemostat

NUM_BYTES = 256


def normed(x: Tensor) -> Tensor:
    """Root-mean-square normalisation over the last dim, without a weight. Source: arXiv 1910.07467, section 3."""
    return F.rms_norm(x, (x.size(-1),))


class Rotary(nn.Module):
    """Rotates query and key by an angle that grows with the position. Source: arXiv 2104.09864, section 3.2."""

    def __init__(self, head_dim: int, window: int) -> None:
        super().__init__()
        frequencies = 10_000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
        angles = torch.outer(torch.arange(window).float(), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, heads, positions, head_dim), unchanged."""
        cos, sin = (table[: x.size(-2)].to(x.dtype) for table in (self.cos, self.sin))
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Block(nn.Module):
    """Causal self-attention, then a feed-forward layer with squared ReLU, each added to the stream."""

    def __init__(self, dim: int, num_heads: int, rotary: Rotary) -> None:
        super().__init__()
        self.num_heads, self.rotary = num_heads, rotary
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.up = nn.Linear(dim, 4 * dim, bias=False)
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, positions, dim), unchanged."""
        x = x + self.out(self.attend(normed(x)))
        return x + self.down(F.relu(self.up(normed(x))).square())

    def attend(self, x: Tensor) -> Tensor:
        """Every position looks at itself and those before it; queries and keys are normalised."""
        batch, positions, dim = x.shape
        heads = self.qkv(x).view(batch, positions, 3, self.num_heads, dim // self.num_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        query, key = self.rotary(normed(query)), self.rotary(normed(key))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, positions, dim)


class GPT(nn.Module):
    """Bytes in, logits of the next byte out.

    Initialisation: embedding normal with std 0.02; matrices that read the stream normal with std
    1/sqrt(inputs); matrices that write to it (`out`, `down`) and the head zero, so that every block starts
    as the identity and the first loss is that of guessing: 8 bits per byte.
    """

    def __init__(self, dim: int, num_layers: int, num_heads: int, window: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_BYTES, dim)
        rotary = Rotary(dim // num_heads, window)
        self.blocks = nn.ModuleList(Block(dim, num_heads, rotary) for _ in range(num_layers))
        self.head = nn.Linear(dim, NUM_BYTES, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.zeros_(self.head.weight)
        for block in self.blocks:
            nn.init.normal_(block.qkv.weight, std=dim**-0.5)
            nn.init.normal_(block.up.weight, std=dim**-0.5)
            nn.init.zeros_(block.out.weight)
            nn.init.zeros_(block.down.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 of shape (batch, positions) -> logits of shape (batch, positions, 256)."""
        x = self.embedding(inputs)
        for block in self.blocks:
            x = block(x)
        return self.head(normed(x))
