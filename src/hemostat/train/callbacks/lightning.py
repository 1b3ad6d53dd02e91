"""`LightningCallback`: records, guards and caps for `lightning.Trainer`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, Literal

from hemostat.train.callbacks.followed_run import FollowedRun
from hemostat.train.callbacks.library import LIGHTNING, load
from hemostat.train.callbacks.told import Told, check_settings
from hemostat.train.settings import TrainSettings

_pytorch = load(LIGHTNING, "pytorch")
_Callback: Any = _pytorch.Callback


class LightningCallback(_Callback):  # type: ignore[misc]
    """Give it to the trainer: `Trainer(..., callbacks=[LightningCallback()])`.

    The loss that `training_step` returns is read at each step and averaged over the ranks. To stop, the trainer's
    `should_stop` is set, on all ranks at the same step; `min_epochs` and `min_steps` of the trainer still hold.

    Args:
        settings: guards, caps and price; other fields belong to the trainer.
        monitor: metric that is followed, as `self.log` names it.
        mode: "min" or "max".

    Attributes:
        run: of the latest `fit`; None before it.

    Raises:
        FieldError: a setting that a callback cannot heed.
    """

    def __init__(
        self,
        settings: TrainSettings | None = None,
        *,
        monitor: str = "val_loss",
        mode: Literal["min", "max"] = "min",
    ) -> None:
        super().__init__()
        self.run: FollowedRun | None = None
        self._settings = check_settings(settings or TrainSettings())
        self._monitor, self._mode = monitor, mode
        self._is_saving = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the run."""
        values = _values(trainer)
        self._global_batch = int(values.get("global_batch", 1))
        self._seen_steps = int(trainer.global_step)
        self._losses: list[float] = []
        self._lr = math.nan
        total = float(trainer.estimated_stepping_batches)
        told = Told(
            library=f"lightning {_pytorch.__version__}",
            monitor=self._monitor,
            mode=self._mode,
            total_steps=int(total) if math.isfinite(total) else 0,
            values=values,
            options=dict(pl_module.hparams),
        )
        self.run = FollowedRun(told, self._settings, pl_module, pl_module.device)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Book a checkpoint that was written since the batch before."""
        if self._is_saving and self.run is not None:
            self.run.bill.book("checkpoints")
        self._is_saving = False

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Note the rate, before a scheduler changes it."""
        self._lr = float(optimizer.param_groups[0]["lr"])

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add the loss; after the last micro-batch of a window, look at the step."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None and pl_module.automatic_optimization:
            self._losses.append(float(loss) * trainer.accumulate_grad_batches)  # it was divided by that
        elif loss is not None:
            self._losses.append(float(loss))
        number = int(trainer.global_step)
        if self.run is None or number == self._seen_steps:
            return
        self._seen_steps = number
        mean = sum(self._losses) / len(self._losses) if self._losses else None
        self._losses = []
        if self.run.step(number, number * self._global_batch, mean, lr=self._lr) is not None:
            trainer.should_stop = True

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """An evaluation begins."""
        if self.run is not None:
            self.run.bill.mark()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Look at the metrics."""
        if self.run is None or trainer.sanity_checking:
            return
        metrics = {str(name): float(value) for name, value in trainer.callback_metrics.items()}
        if self.run.evaluated(metrics) is not None:
            trainer.should_stop = True

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """A checkpoint is about to be written."""
        self._is_saving = True
        if self.run is not None:
            self.run.bill.mark()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write how it ended."""
        if self.run is not None:
            self.run.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what ended it."""
        if self.run is not None:
            self.run.close(exception)


def _values(trainer: Any) -> dict[str, Any]:
    group = trainer.optimizers[0].param_groups[0] if trainer.optimizers else {}
    micro_batch = getattr(trainer.train_dataloader, "batch_size", None)
    known = {
        "lr": group.get("lr"),
        "weight_decay": group.get("weight_decay"),
        "optimizer": type(trainer.optimizers[0]).__name__.lower() if trainer.optimizers else None,
        "micro_batch": micro_batch,
        "accumulation": trainer.accumulate_grad_batches,
        "global_batch": micro_batch and micro_batch * trainer.accumulate_grad_batches * trainer.world_size,
        "epochs": trainer.max_epochs,
        "clip_norm": trainer.gradient_clip_val,
        "precision": str(trainer.precision),
        "seed": int(os.environ["PL_GLOBAL_SEED"]) if "PL_GLOBAL_SEED" in os.environ else None,
    }
    return {name: value for name, value in known.items() if value is not None}
