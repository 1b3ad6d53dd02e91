"""A Hugging Face model, built from a config, in a plain loop: sums of two digits, AdamW."""

import torch
from hemostat import prepare
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

from sentences import PAD, Additions, mean_token_loss

EPOCHS = 3


def train() -> float:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=PAD,
    )
    model = LlamaForCausalLM(config)
    data = Additions()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session, model, optimizer, loader = prepare(model, optimizer, loader, epochs=EPOCHS)
    for _ in range(EPOCHS):
        for batch in loader:
            loss = model(**batch).loss
            count = (batch["labels"][:, 1:] >= 0).sum()
            session.backward(loss * count, count)
            optimizer.step()
            optimizer.zero_grad()
    session.close()
    return mean_token_loss(model, data)


if __name__ == "__main__":
    print(f"loss after {EPOCHS} epochs: {train():.6f}")
