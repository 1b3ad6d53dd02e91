"""Plain PyTorch on one device: SGD with momentum and a cosine schedule."""

import torch
from hemostat import Base, Session
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from images import classifier, digits, mean_loss

EPOCHS = 3


def train() -> float:
    data = digits()
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    base = Base(lr=0.05, tuned_batch=16, epochs=EPOCHS, schedule="cosine")
    with Session(model, optimizer, loader, base) as session:
        for images, targets in session.steps():
            loss = cross_entropy(session.model(images), targets)
            session.backward(loss * len(targets), count=len(targets))
    return mean_loss(model, data)


if __name__ == "__main__":
    print(f"loss after {EPOCHS} epochs: {train():.6f}")
