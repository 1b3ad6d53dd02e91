"""A script of Accelerate: SGD with momentum at a constant rate."""

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from images import classifier, digits, mean_loss

EPOCHS = 3


def train() -> float:
    data = digits()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(EPOCHS):
        for images, targets in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), targets)
            accelerator.backward(loss)
            optimizer.step()
    final = mean_loss(model, data)
    accelerator.end_training()
    return final


if __name__ == "__main__":
    print(f"loss after {EPOCHS} epochs: {train():.6f}")
