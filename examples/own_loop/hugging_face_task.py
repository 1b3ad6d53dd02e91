"""The Hugging Face model of this folder as a task: it returns its own loss, through the door `step`."""

from __future__ import annotations

import hemostat
from torch import Tensor, nn
from torch.utils.data import Subset
from transformers import LlamaConfig, LlamaForCausalLM

from sentences import PAD, Additions


class Sums(hemostat.Task):
    """What the script next door has: AdamW at batch 16 and a constant rate."""

    optimizer: str = "adamw"
    lr: float = 3e-3
    tuned_batch: int = 16
    epochs: float = 3
    schedule: str = "constant"

    def model(self) -> nn.Module:
        """Built from a config: random weights, nothing is downloaded."""
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=16,
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=2,
                pad_token_id=PAD,
            )
        )

    def train_data(self) -> Additions:
        """All sums of two digits."""
        return Additions()

    def val_data(self) -> Additions:
        """The same: it shows how well they are known by heart."""
        return Additions()

    def test_data(self) -> Subset[dict[str, Tensor]]:
        """The sums with a carry."""
        return Subset(Additions(), [index for index in range(100) if sum(divmod(index, 10)) > 9])

    def step(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The model's mean, and over how many tokens it is one: labels are shifted by one, padding is left out."""
        return model(**batch).loss, (batch["labels"][:, 1:] >= 0).sum()
