"""What the Hugging Face script trains on: additions such as `7+5=12`, padded, one token a character."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

CHARACTERS = "0123456789+="
END, PAD = len(CHARACTERS), len(CHARACTERS) + 1
LENGTH = 8
IGNORED = -100  # what Hugging Face models leave out of their loss


class Additions(Dataset[dict[str, Tensor]]):
    """All sums of two digits; the padding is ignored by the loss, so samples have 6 or 7 tokens to learn from."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        left, right = divmod(index, 10)
        tokens = [CHARACTERS.index(letter) for letter in f"{left}+{right}={left + right}"] + [END]
        padding = LENGTH - len(tokens)
        ids, labels = tokens + [PAD] * padding, tokens + [IGNORED] * padding
        mask = [1] * len(tokens) + [0] * padding
        return {
            "input_ids": torch.tensor(ids),
            "attention_mask": torch.tensor(mask),
            "labels": torch.tensor(labels),
        }


@torch.no_grad()
def mean_token_loss(model: nn.Module, data: Additions) -> float:
    """Mean over all tokens of all sentences."""
    batch: dict[str, Any] = torch.utils.data.default_collate([data[index] for index in range(len(data))])
    return float(model(**batch).loss)
