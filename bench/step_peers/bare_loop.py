"""The loop that a careful person writes without a framework; everything else is compared with it."""

from __future__ import annotations

import math
from pathlib import Path

import torch

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
    """Clip, check the norm, step, advance the schedule, record the loss."""
    model = work.new_model()
    optimizer = new_optimizer(model)
    schedule = new_schedule(optimizer, work)
    parameters = list(model.parameters())
    tally = Tally(work, folder)
    for inputs, targets in Batches(work):
        loss = loss_of(model(inputs), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        if math.isfinite(norm.item()):
            optimizer.step()
            schedule.step()
        optimizer.zero_grad(set_to_none=True)
        tally.note(loss.item())
    return tally.close()
