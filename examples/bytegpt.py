"""ByteGPT: a small GPT that reads and writes single bytes, trained on the source of Python's standard library."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

import hemostat
from baselines import held_out_bits
from muon import Muon
from stdlib_corpus import IGNORE, SEPARATOR, ByteWindows, join, load_corpus

NUM_BYTES = 256
NUM_TABLE_BITS = 13  # 8,192 rows
HASH = 2_654_435_761  # 2**32 over the golden ratio
NUM_SHOWN = 160  # bytes of text that `show` prints


def normed(x: Tensor) -> Tensor:
    """Root-mean-square normalisation over the last dim, without a weight. Source: arXiv 1910.07467, section 3."""
    return functional.rms_norm(x, (x.size(-1),))


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


class LastBytes(nn.Module):
    """Embeds the last 2, 3, ... bytes up to each position, and adds the embeddings.

    There are far too many such groups for a row each, so all of them share one table by a multiplicative hash.

    Source: hashed n-gram embeddings as in the Byte Latent Transformer (arXiv 2412.09871, section 3.2.1); the
    hash is Knuth's (The Art of Computer Programming 3, section 6.4).
    """

    def __init__(self, dim: int, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.table = nn.Embedding(2**NUM_TABLE_BITS, dim)

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 of shape (batch, positions) -> shape (batch, positions, dim)."""
        code, rows = inputs, []
        for back in range(1, self.longest):
            earlier = functional.pad(inputs, (back, 0))[:, : inputs.size(1)]
            code = code + earlier * NUM_BYTES**back
            rows.append((code * HASH % 2**32) >> (32 - NUM_TABLE_BITS))
        return self.table(torch.stack(rows)).sum(dim=0)


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
        return x + self.down(functional.relu(self.up(normed(x))).square())

    def attend(self, x: Tensor) -> Tensor:
        """Every position looks at itself and those before it; queries and keys are normalised."""
        batch, positions, dim = x.shape
        heads = self.qkv(x).view(batch, positions, 3, self.num_heads, dim // self.num_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        query, key = self.rotary(normed(query)), self.rotary(normed(key))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, positions, dim)


class GPT(nn.Module):
    """Bytes in, logits of the next byte out.

    A byte means little alone, so a position starts as the sum of its byte's embedding and that of its last
    few bytes together.

    Initialisation: byte embedding normal with std 0.02; matrices that read the stream (`qkv`, `up`) normal
    with std 1/sqrt(dim); those that write to it (`out`, `down`), the table of `LastBytes` and the head zero.
    So every block starts as the identity, and the first loss is that of guessing: 8 bits per byte.
    """

    def __init__(self, dim: int, num_layers: int, num_heads: int, window: int, longest: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_BYTES, dim)
        self.last_bytes = LastBytes(dim, longest)
        rotary = Rotary(dim // num_heads, window)
        self.blocks = nn.ModuleList(Block(dim, num_heads, rotary) for _ in range(num_layers))
        self.head = nn.Linear(dim, NUM_BYTES, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.zeros_(self.last_bytes.table.weight)
        nn.init.zeros_(self.head.weight)
        for block in self.blocks:
            for matrix in (block.qkv.weight, block.up.weight):
                nn.init.normal_(matrix, std=dim**-0.5)
            for matrix in (block.out.weight, block.down.weight):
                nn.init.zeros_(matrix)
            for matrix in (block.qkv.weight, block.up.weight, block.out.weight, block.down.weight):
                matrix.is_hidden = True  # the optimizer treats these apart

    def forward(self, inputs: Tensor) -> Tensor:
        """int64 of shape (batch, positions) -> logits of shape (batch, positions, 256)."""
        x = self.embedding(inputs) + self.last_bytes(inputs)
        for block in self.blocks:
            x = block(x)
        return self.head(normed(x))


class ByteGPT(hemostat.Task):
    """What the demo trains. A sample is a window of text; the loss is in nats and counts bytes."""

    monitor: str = "val_bits_per_byte"
    dim: int = 128
    num_layers: int = 4
    num_heads: int = 4
    window: int = 256
    longest: int = 4  # bytes that are embedded together
    lr: float = 0.02
    adamw_lr: float = 0.01  # of the embeddings and the head
    tuned_batch: int = 8
    total_samples: int = 9_600
    schedule: str = "cosine"
    warmup_steps: int = 40
    clip_norm: float = 1.0
    eval_every_samples: int = 3_200

    def model(self) -> nn.Module:
        """The network, 1.9 million parameters, 0.79 million of them in matrices that every byte passes."""
        return GPT(self.dim, self.num_layers, self.num_heads, self.window, self.longest)

    def train_data(self) -> ByteWindows:
        """Windows of the training files."""
        return ByteWindows(join(load_corpus().train), self.window)

    def val_data(self) -> ByteWindows:
        """Windows of the held-out files, each byte a target once."""
        return ByteWindows(join(load_corpus().held_out), self.window)

    def optimizer(self, params: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Muon for the hidden matrices, AdamW for the rest."""
        params = list(params)
        matrices = [param for param in params if hasattr(param, "is_hidden")]
        others = [param for param in params if not hasattr(param, "is_hidden")]
        return Muon(matrices, others, lr=self.lr, other_lr=self.adamw_lr)

    def loss(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """(nats summed over the targets, how many there are)."""
        nats = functional.cross_entropy(
            output.float().flatten(0, 1), target.flatten(), ignore_index=IGNORE, reduction="sum"
        )
        return nats, (target != IGNORE).sum()

    def metrics(self, output: Tensor, target: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        """Bits per byte of the files: the end of a file has to be predicted but is no byte of it."""
        nats, _ = self.loss(output, target)
        num_bytes = ((target != IGNORE) & (target != SEPARATOR)).sum()
        return {"bits_per_byte": (nats / math.log(2), num_bytes)}

    def show(self, output: Tensor, batch: tuple[Tensor, Tensor]) -> str:
        """A piece of held-out text, and under it the model's likeliest byte at each place."""
        text = bytes(batch[1][0, -NUM_SHOWN:].clamp(min=0).tolist())
        guess = bytes(output[0, -NUM_SHOWN:].argmax(dim=-1).tolist())
        return "\n".join(f"{name} {readable(line)}" for name, line in (("text ", text), ("guess", guess)))

    def baselines(self) -> dict[str, float]:
        """Bits per byte that others reach on the same held-out files."""
        return held_out_bits(load_corpus())

    def fingerprint(self) -> list[bytes]:
        """The training text itself."""
        return [join(load_corpus().train)]


def readable(text: bytes) -> str:
    """One line of ASCII, with other bytes and line ends escaped.

    Examples:
        >>> readable(b"if x:\\n  y")
        'if x:\\\\n  y'
    """
    return text.decode("latin-1").encode("unicode_escape").decode("ascii")
