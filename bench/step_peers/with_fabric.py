"""Lightning Fabric: `setup`, `backward`, `clip_gradients`, as in its guide "Convert PyTorch code to Fabric"."""

from __future__ import annotations

from pathlib import Path

from lightning.fabric import Fabric

from step_peers.workload import (
    CLIP_NORM,
    Batches,
    Tally,
    Times,
    Workload,
    loss_of,
    new_optimizer,
    new_schedule,
)


def run(work: Workload, folder: Path) -> Times:
    """`clip_gradients` makes the non-finite check itself (`error_if_nonfinite=True` is its default)."""
    fabric = Fabric(accelerator="cpu", devices=1)
    plain = work.new_model()
    model, optimizer = fabric.setup(plain, new_optimizer(plain))
    schedule = new_schedule(optimizer, work)
    tally = Tally(work, folder)
    for inputs, targets in Batches(work):
        loss = loss_of(model(inputs), targets)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=CLIP_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        tally.note(loss.item())
    return tally.close()
