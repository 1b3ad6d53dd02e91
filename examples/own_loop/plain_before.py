"""Plain PyTorch on one device: SGD with momentum and a cosine schedule."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from images import classifier, digits, mean_loss

EPOCHS = 3


def train() -> float:
    data = digits()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader) - 1)
    for _ in range(EPOCHS):
        for images, targets in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), targets)
            loss.backward()
            optimizer.step()
            scheduler.step()
    return mean_loss(model, data)


if __name__ == "__main__":
    print(f"loss after {EPOCHS} epochs: {train():.6f}")
