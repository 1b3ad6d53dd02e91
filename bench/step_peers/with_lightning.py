"""Lightning's Trainer with automatic optimisation, and without its logger, progress bar and checkpoints."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer

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

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(LightningModule):
    """The loss is recorded in a hook: cheaper than `self.log`, which would count against Lightning."""

    def __init__(self, work: Workload, tally: Tally) -> None:
        super().__init__()
        self.work = work
        self.model = work.new_model()
        self.tally = tally

    def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
        """The mean loss of a batch."""
        inputs, targets = batch
        return loss_of(self.model(inputs), targets)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_index: int) -> None:
        """The step is done."""
        self.tally.note(outputs["loss"].item())

    def configure_optimizers(self) -> dict[str, Any]:
        """The schedule advances with every step."""
        optimizer = new_optimizer(self.model)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": new_schedule(optimizer, self.work), "interval": "step"},
        }


def run(work: Workload, folder: Path) -> Times:
    """One `fit`; clipping is the Trainer's own."""
    tally = Tally(work, folder)
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=work.num_steps,
        gradient_clip_val=CLIP_NORM,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(Module(work, tally), train_dataloaders=Batches(work))
    return tally.close()
