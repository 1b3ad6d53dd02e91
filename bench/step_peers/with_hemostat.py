"""hemostat with everything on: its loader, its record on the disk, control vote, guards, closed-form schedule."""

from __future__ import annotations

import os
from pathlib import Path

from hemostat import Session
from hemostat.recipe import Base
from hemostat.train import TrainSettings
from step_peers.workload import (
    CLIP_NORM,
    LR,
    Stopwatch,
    Times,
    Workload,
    loss_of,
    new_optimizer,
)


def run(
    work: Workload, folder: Path, compare_every_steps: int = TrainSettings().compare_every_steps
) -> Times:
    """The documented loop: `session.steps()` and `session.backward(sum, count)`.

    Args:
        work: what is trained.
        folder: the record goes below it.
        compare_every_steps: how often the weights of the ranks are hashed and compared.
    """
    model = work.new_model()
    base = Base(
        optimizer="adamw",
        lr=LR,
        tuned_batch=work.global_batch,
        total_samples=work.num_steps * work.global_batch,
        schedule="constant",
        warmup_steps=work.num_warmup_steps,
        clip_norm=CLIP_NORM,
    )
    watch = Stopwatch(work)
    os.environ["HEMOSTAT_RUN_DIR"] = str(folder / "run")
    try:
        settings = TrainSettings(device="cpu", compare_every_steps=compare_every_steps)
        with Session(model, new_optimizer(model), work.dataset, base, settings=settings) as session:
            for inputs, targets in session.steps():
                loss = loss_of(session.model(inputs), targets)
                session.backward(loss * targets.numel(), count=targets.numel())
                watch.tick(session.last.loss)
    finally:
        del os.environ["HEMOSTAT_RUN_DIR"]
    return watch.times()
