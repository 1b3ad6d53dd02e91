"""A script of Accelerate: SGD with momentum at a constant rate."""

import torch
from hemostat import prepare
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from images import classifier, digits, mean_loss

EPOCHS = 3


def train() -> float:
    data = digits()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session, model, optimizer, loader = prepare(model, optimizer, loader, epochs=EPOCHS)
    for _ in range(EPOCHS):
        for images, targets in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), targets)
            session.backward(loss * len(targets), count=len(targets))
            optimizer.step()
    final = mean_loss(model, data)
    session.close()
    return final


if __name__ == "__main__":
    print(f"loss after {EPOCHS} epochs: {train():.6f}")
