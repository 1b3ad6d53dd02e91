"""Accelerate: `prepare`, `accumulate`, `backward`, `clip_grad_norm_`, as in its quick tour."""

from __future__ import annotations

from pathlib import Path

from accelerate import Accelerator

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
    """The wrapped optimizer and schedule; batches need no moving on a CPU."""
    accelerator = Accelerator(cpu=True)
    plain = work.new_model()
    raw_optimizer = new_optimizer(plain)
    model, optimizer, schedule = accelerator.prepare(plain, raw_optimizer, new_schedule(raw_optimizer, work))
    tally = Tally(work, folder)
    for inputs, targets in Batches(work):
        with accelerator.accumulate(model):
            loss = loss_of(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        tally.note(loss.item())
    return tally.close()
