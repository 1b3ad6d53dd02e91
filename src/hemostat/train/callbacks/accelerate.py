"""`AccelerateRun`: records, guards and caps for a loop under `accelerate.Accelerator`."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal

import torch

from hemostat.train.callbacks.followed_run import FollowedRun
from hemostat.train.callbacks.library import ACCELERATE, load
from hemostat.train.callbacks.told import Told, check_settings
from hemostat.train.control import Stop
from hemostat.train.settings import TrainSettings

_accelerate = load(ACCELERATE)


class AccelerateRun:
    """Follows a loop: make one after `accelerator.prepare`, on every process, and call `step` once a batch.

    Args:
        accelerator: of the loop.
        model: prepared or not; nothing but its size is read.
        optimizer: its rate is recorded, so call `step` before that of a scheduler.
        settings: guards, caps and price; other fields belong to the loop.
        monitor: metric that is followed.
        mode: "min" or "max".
        **values: hyper-parameters to record. `global_batch` (samples of a step over all processes; without it a step
            counts as one) and `total_steps` are used as well.

    Attributes:
        run: the run.

    Raises:
        FieldError: a setting that cannot be heeded here.
    """

    def __init__(
        self,
        accelerator: Any,
        model: torch.nn.Module,
        optimizer: Any,
        settings: TrainSettings | None = None,
        *,
        monitor: str = "val_loss",
        mode: Literal["min", "max"] = "min",
        **values: Any,
    ) -> None:
        self._accelerator, self._optimizer = accelerator, optimizer
        self._total_steps = int(values.get("total_steps", 0))
        self._global_batch = int(values.get("global_batch", 1))
        self._losses: list[float] = []
        self._num_steps = 0
        told = Told(
            library=f"accelerate {_accelerate.__version__}",
            monitor=monitor,
            mode=mode,
            total_steps=self._total_steps,
            values={
                "lr": float(optimizer.param_groups[0]["lr"]),
                "accumulation": accelerator.gradient_accumulation_steps,
                "precision": {"no": "fp32"}.get(accelerator.mixed_precision, accelerator.mixed_precision),
                **values,
            },
        )
        self.run = FollowedRun(told, check_settings(settings or TrainSettings()), model, accelerator.device)

    def step(self, loss: float | torch.Tensor, grad_norm: float | torch.Tensor | None = None) -> bool:
        """Look at a batch; between two optimizer steps the loss is only kept.

        Args:
            loss: mean of the batch on this process.
            grad_norm: what `accelerator.clip_grad_norm_` returned.

        Returns:
            Leave the loop. All processes get the same answer, also where one of them has called
            `accelerator.set_trigger()`.
        """
        self._losses.append(float(loss.detach() if isinstance(loss, torch.Tensor) else loss))
        if not self._accelerator.sync_gradients:
            return False
        self._num_steps += 1
        mean, self._losses = sum(self._losses) / len(self._losses), []
        stop = self.run.step(
            self._num_steps,
            self._num_steps * self._global_batch,
            mean,
            lr=float(self._optimizer.param_groups[0]["lr"]),
            grad_norm=None if grad_norm is None else float(grad_norm),
        )
        if stop is not None:
            self._accelerator.set_trigger()
        stops = bool(self._accelerator.check_trigger())
        if stops and self.run.stop is None:
            self.run.stop = Stop("a process called accelerator.set_trigger()")
        return stops

    def begin_evaluation(self) -> None:
        """Time from here to `evaluated` is an evaluation; without it, time from the latest `step`."""
        self.run.bill.mark()

    def evaluated(self, **metrics: float) -> bool:
        """Look at an evaluation; call it on all processes.

        Args:
            **metrics: of this process; the monitored one is averaged.

        Returns:
            Leave the loop; the same on all processes.
        """
        return self.run.evaluated({name: float(value) for name, value in metrics.items()}) is not None

    def saved(self) -> None:
        """A checkpoint was written since the latest call."""
        self.run.bill.book("checkpoints")

    def close(self, error: BaseException | None = None) -> None:
        """Write how the run ended; a second call does nothing."""
        self.run.close(error, complete=self._num_steps >= self._total_steps)

    def __enter__(self) -> AccelerateRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)
