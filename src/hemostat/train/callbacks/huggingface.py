"""`HuggingFaceCallback`: records, guards and caps for `transformers.Trainer`."""

from __future__ import annotations

import math
from typing import Any

from hemostat.train.callbacks.followed_run import FollowedRun
from hemostat.train.callbacks.library import HUGGING_FACE, load
from hemostat.train.callbacks.told import Told, check_settings
from hemostat.train.settings import TrainSettings

_transformers = load(HUGGING_FACE)
_TrainerCallback: Any = _transformers.TrainerCallback


class HuggingFaceCallback(_TrainerCallback):  # type: ignore[misc]
    """Give it to the trainer: `Trainer(..., callbacks=[HuggingFaceCallback()])`.

    The trainer tells its loss every `logging_steps`, averaged since the one before; the guards see no more than
    that. To stop, `control.should_training_stop` is set, and a checkpoint is asked for unless `save_strategy="no"`.

    Args:
        settings: guards, caps and price; other fields belong to the trainer.
        monitor: metric that is followed; by default `metric_for_best_model` of the arguments, else "eval_loss".
        mode: "min" or "max"; by default what `greater_is_better` says.

    Attributes:
        run: of the latest `train()`; None before it.

    Raises:
        FieldError: a setting that a callback cannot heed.
    """

    def __init__(
        self, settings: TrainSettings | None = None, *, monitor: str | None = None, mode: str | None = None
    ) -> None:
        self.run: FollowedRun | None = None
        self._settings = check_settings(settings or TrainSettings())
        self._monitor, self._mode = monitor, mode

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Open the run."""
        monitor = self._monitor or args.metric_for_best_model or "eval_loss"
        self._monitored = monitor if monitor.startswith("eval_") else f"eval_{monitor}"
        mode = self._mode or ("max" if args.greater_is_better else "min")
        self._global_batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        every = state.logging_steps or args.logging_steps
        if str(getattr(args.logging_strategy, "value", "")) == "epoch":
            every = state.max_steps // max(1, state.num_train_epochs)
        told = Told(
            library=f"transformers {_transformers.__version__}",
            monitor=self._monitored,
            mode="max" if mode == "max" else "min",
            total_steps=state.max_steps,
            loss_every_steps=max(1, int(every)),
            values=_values(args, state, self._global_batch),
            options=args.to_sanitized_dict(),
            data=_known_data(given.get("train_dataloader")),
        )
        self.run = FollowedRun(told, self._settings, given["model"], args.device)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Look at the step, unless its loss is told right after."""
        if not control.should_log:
            self._look(args, state, control, None, {})

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        """Look at the loss; what an evaluation logs is seen there."""
        if logs and "loss" in logs:
            self._look(args, state, control, float(logs["loss"]), logs)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **given: Any) -> None:
        """Look at the metrics."""
        if self.run is None:
            return
        figures = {name: float(value) for name, value in (metrics or {}).items() if _is_number(value)}
        self._obey(args, control, self.run.evaluated(figures) is not None)

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Book what the checkpoint took."""
        if self.run is not None:
            self.run.bill.book("checkpoints")

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Write how it ended."""
        if self.run is not None:
            self.run.close()

    def _look(self, args: Any, state: Any, control: Any, loss: float | None, logs: dict[str, Any]) -> None:
        if self.run is None:
            return
        norm = logs.get("grad_norm")
        stop = self.run.step(
            state.global_step,
            state.global_step * self._global_batch,
            loss,
            lr=float(logs.get("learning_rate", math.nan)),
            grad_norm=None if norm is None else float(norm),
        )
        self._obey(args, control, stop is not None)

    def _obey(self, args: Any, control: Any, stops: bool) -> None:
        if stops and not control.should_training_stop:
            control.should_training_stop = True
            control.should_save = control.should_save or str(getattr(args.save_strategy, "value", "")) != "no"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _values(args: Any, state: Any, global_batch: int) -> dict[str, Any]:
    precision = "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32"
    return {
        "lr": args.learning_rate,
        "global_batch": global_batch,
        "micro_batch": args.train_batch_size,
        "accumulation": args.gradient_accumulation_steps,
        "epochs": float(args.num_train_epochs),
        "optimizer": str(getattr(args.optim, "value", args.optim)),
        "schedule": str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
        "warmup_steps": args.get_warmup_steps(state.max_steps),
        "weight_decay": args.weight_decay,
        "clip_norm": args.max_grad_norm,
        "precision": precision,
        "seed": args.seed,
    }


def _known_data(loader: Any) -> dict[str, Any]:
    """Type, size and the library's own fingerprint; no sample is read, since that may draw random numbers."""
    data = getattr(loader, "dataset", None)
    if data is None:
        return {}
    known: dict[str, Any] = {"tier": "declared", "type": type(data).__name__}
    if hasattr(data, "__len__"):
        known["num_samples"] = len(data)
    mark = getattr(data, "_fingerprint", None)
    return known | ({"huggingface": mark} if isinstance(mark, str) else {})
