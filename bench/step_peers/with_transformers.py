"""transformers' Trainer with its own clipping, and without logging, saving and progress bar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

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


class Wrapped(torch.nn.Module):
    """Takes the keyword arguments that Trainer passes and returns the loss in a dict, as Trainer expects."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The mean loss of a batch."""
        return {"loss": loss_of(self.model(inputs), labels)}


class PlainBatches(Trainer):
    """Feeds the shared batches instead of a DataLoader of its own, and keeps the loss of each step."""

    latest: torch.Tensor

    def __init__(self, work: Workload, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._batches = NamedBatches(work)

    def get_train_dataloader(self) -> Any:
        """The method that Trainer's documentation names for other data."""
        return self._batches

    def training_step(self, *arguments: Any, **named: Any) -> torch.Tensor:
        """Trainer's own step; it returns the detached loss."""
        self.latest = super().training_step(*arguments, **named)
        return self.latest


class NamedBatches(Batches):
    """Trainer wants dicts."""

    def __iter__(self) -> Any:
        for inputs, targets in super().__iter__():
            yield {"inputs": inputs, "labels": targets}


class StepEnd(TrainerCallback):
    """Notes the loss when a step is done."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.trainer: PlainBatches | None = None

    def on_step_end(self, *arguments: Any, **named: Any) -> None:
        """The step is done."""
        self.tally.note(self.trainer.latest.item())


def run(work: Workload, folder: Path) -> Times:
    """One `train`."""
    settings = TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        max_steps=work.num_steps,
        per_device_train_batch_size=work.global_batch,
        max_grad_norm=CLIP_NORM,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    model = Wrapped(work.new_model())
    optimizer = new_optimizer(model)
    tally = Tally(work, folder)
    step_end = StepEnd(tally)
    trainer = PlainBatches(
        work,
        model=model,
        args=settings,
        train_dataset=work.dataset,
        optimizers=(optimizer, new_schedule(optimizer, work)),
        callbacks=[step_end],
    )
    trainer.remove_callback(PrinterCallback)
    step_end.trainer = trainer
    trainer.train()
    return tally.close()
