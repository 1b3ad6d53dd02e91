"""Ignite: an Engine around a hand-written update, as in its guides; schedule and record hang on events."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from ignite.engine import Engine, Events

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
    """`create_supervised_trainer` has no place for clipping, so the update is written out."""
    model = work.new_model()
    optimizer = new_optimizer(model)
    schedule = new_schedule(optimizer, work)
    parameters = list(model.parameters())
    tally = Tally(work, folder)

    def update(engine: Engine, batch: Any) -> float:
        model.train()
        optimizer.zero_grad()
        inputs, targets = batch
        loss = loss_of(model(inputs), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        if math.isfinite(norm.item()):
            optimizer.step()
        return loss.item()

    trainer = Engine(update)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: schedule.step())
    trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: tally.note(engine.state.output))
    trainer.run(Batches(work), max_epochs=1, epoch_length=work.num_steps)
    return tally.close()
