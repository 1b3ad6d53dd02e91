"""HG005: the monitored metric turns, beyond its noise, while the training loss still falls."""

from __future__ import annotations

from typing import Any

from hemostat.findings import Finding, Severity
from hemostat.recipe import online
from hemostat.train.run_guards.guard import Guard
from hemostat.train.update import Step


class OverfittingGuard(Guard):
    """Compares the metric of each evaluation with the mean training loss since the one before.

    Args:
        monitor: name of the metric.
        mode: "min" or "max".
    """

    def __init__(self, monitor: str, mode: str) -> None:
        self._monitor = monitor
        self._overfitting = online.Overfitting(mode)
        self._loss_sum = 0.0
        self._num_steps = 0

    def after_step(self, step: Step) -> Finding | None:
        """Add the loss of an applied step."""
        if step.applied:
            self._loss_sum += step.loss
            self._num_steps += 1
        return None

    def after_evaluation(self, step: Step, value: float, error: float | None) -> Finding | None:
        """A finding when overfitting has begun."""
        if not self._num_steps:
            return None
        train_loss = self._loss_sum / self._num_steps
        self._loss_sum, self._num_steps = 0.0, 0
        onset = self._overfitting.update(value, train_loss, samples=step.samples, error=error)
        if onset is None:
            return None
        return Finding(
            code="HG005",
            severity=Severity.WARNING,
            message=(
                f"overfitting has begun at about {onset.samples:,} samples: {self._monitor} went from "
                f"{onset.best:.4g} to {onset.value:.4g}, more than its noise of {onset.noise:.2g}, "
                f"while the training loss fell from {onset.train_before:.4g} to {onset.train_now:.4g}."
            ),
            fix="Stop there (patience), or regularise: more data, augmentation, weight_decay, dropout.",
            where=f"step {step.number}",
            evidence=onset._asdict(),
        )

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {**self._overfitting.state(), "loss_sum": self._loss_sum, "num_steps": self._num_steps}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._overfitting.restore(state)
        self._loss_sum, self._num_steps = float(state["loss_sum"]), int(state["num_steps"])
