"""The six models whose memory is foretold and then counted, and their task: data that are counted, not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from hemostat.task import Task
from transformer import Block, Shape, Transformer

NUM_CLASSES: Final = 10
NUM_WORDS: Final = 256
POSITIONS: Final = 64
_SHAPE: Final = Shape(dim=96, num_blocks=6, num_heads=4, num_words=NUM_WORDS, positions=POSITIONS)


class Vit(nn.Module):
    """Patches of a picture as positions, a token for the class before them, and a head on that token."""

    def __init__(self, size: int = 32, patch: int = 4) -> None:
        super().__init__()
        shape = Shape(
            dim=64, num_blocks=6, num_heads=4, num_words=NUM_CLASSES, positions=(size // patch) ** 2
        )
        self.patches = nn.Conv2d(3, shape.dim, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, shape.dim))
        self.places = nn.Parameter(torch.zeros(1, shape.positions + 1, shape.dim))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.num_blocks))
        self.norm, self.head = nn.LayerNorm(shape.dim), nn.Linear(shape.dim, NUM_CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        """Shape (batch, 3, size, size) -> (batch, classes)."""
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Residual(nn.Module):
    """Two convolutions with their norms, and a shortcut that is a convolution where the width changes."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        stride = 1 if out == width else 2
        self.first = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, width, size, size) -> (batch, out, size or half of it, the same)."""
        inner = functional.relu(self.norm_1(self.first(x)))
        return functional.relu(self.norm_2(self.second(inner)) + self.shortcut(x))


class Recurrent(nn.Module):
    """An LSTM layer behind a norm; only its sequence goes on."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.lstm = nn.LayerNorm(width), nn.LSTM(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, positions, width), unchanged."""
        out: Tensor = self.lstm(self.norm(x))[0]
        return out


def gpt() -> nn.Module:
    return Transformer(_SHAPE)


def resnet() -> nn.Module:
    stem = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
    blocks = [Residual(*widths) for widths in ((32, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128))]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, NUM_CLASSES))
    return nn.Sequential(stem, *blocks, head)


def lstm() -> nn.Module:
    ends = nn.Embedding(NUM_WORDS, 128), nn.Linear(128, NUM_WORDS)
    return nn.Sequential(ends[0], *(Recurrent(128) for _ in range(4)), ends[1])


def mlp() -> nn.Module:
    inner = [nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8)]
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 256), *inner, nn.Linear(256, NUM_CLASSES))


def hugging_face() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=NUM_WORDS,
        max_position_embeddings=POSITIONS,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


MODELS: Final[dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]] = {
    "GPT": (gpt, ()),
    "ViT": (Vit, (3, 32, 32)),
    "ResNet": (resnet, (3, 32, 32)),
    "LSTM": (lstm, ()),
    "MLP": (mlp, (3, 16, 16)),
    "Llama of transformers": (hugging_face, ()),
}


class Drawn(Dataset[tuple[Tensor, Tensor]]):
    """Samples made when they are asked for: pictures of a shape with a class, or tokens with those that follow."""

    def __init__(self, shape: tuple[int, ...], num_samples: int) -> None:
        self._shape, self._num_samples = shape, num_samples

    def __len__(self) -> int:
        return self._num_samples

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self._shape:
            return torch.full(self._shape, index / self._num_samples), torch.tensor(index % NUM_CLASSES)
        places = torch.arange(index, index + POSITIONS + 1)
        tokens = places * (places + index) % NUM_WORDS
        return tokens[:-1], tokens[1:]


class Named(Task):
    """One of `MODELS`.

    Attributes:
        name: which.
        num_samples: of the data.
    """

    name: str
    num_samples: int

    def model(self) -> nn.Module:
        """The same weights every time."""
        torch.manual_seed(0)
        return MODELS[self.name][0]()

    def train_data(self) -> Drawn:
        """The same samples every time."""
        return Drawn(MODELS[self.name][1], self.num_samples)

    def loss(self, output: Any, target: Tensor) -> tuple[Tensor, int]:
        """Sum of the cross-entropy, and over how many classes or tokens."""
        logits = getattr(output, "logits", output)
        loss = functional.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction="sum")
        return loss, target.numel()
