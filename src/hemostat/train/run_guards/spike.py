"""HG001: the loss jumped; the batch is named, so that somebody can look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hemostat.findings import Finding, Severity
from hemostat.recipe import online
from hemostat.train.run_guards.guard import Guard
from hemostat.train.update import Step


class SpikeGuard(Guard):
    """Compares each loss and gradient norm with those of the 64 steps before.

    Args:
        deviations: above the median that make a spike.
        name_batch: says where somebody finds the samples between two positions.
    """

    def __init__(self, deviations: float, name_batch: Callable[[int, int], str]) -> None:
        self._name_batch = name_batch
        self._spikes = online.Spikes(deviations=deviations)
        self._samples = 0

    def after_step(self, step: Step) -> Finding | None:
        """A finding at the first step of a spike."""
        before, self._samples = self._samples, step.samples
        spike = self._spikes.update(step.loss, step.grad_norm)
        if spike is None:
            return None
        look = self._name_batch(before, step.samples)
        grad = "" if spike.grad_deviations is None else f", gradient norm by {spike.grad_deviations:.0f}"
        return Finding(
            code="HG001",
            severity=Severity.WARNING,
            message=(
                f"the loss jumped from {spike.usual_loss:.4g} to {spike.loss:.4g} at step {step.number}, by "
                f"{spike.deviations:.0f} standard deviations{grad}."
            ),
            fix=f"Look at its batch: {look}. If it comes again, set clip_norm=1 or lower lr.",
            where=f"step {step.number}, samples {before} to {step.samples - 1}",
            evidence={**spike._asdict(), "grad_norm": step.grad_norm, "samples": [before, step.samples]},
        )

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs to go on."""
        return {**self._spikes.state(), "samples": self._samples}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""
        self._spikes.restore(state)
        self._samples = int(state["samples"])
