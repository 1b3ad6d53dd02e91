"""Gradient noise scale: from gradients of a small and a large batch to the batch beyond which devices are wasted."""

from __future__ import annotations

import math

MIN_UPDATES = 20


class NoiseScale:
    """Running estimate of the simple noise scale tr(Sigma) / |G|^2, in samples.

    One step gives the squared norm of the gradient of a small batch (one rank, or the first micro-batch) and of
    the large one (all of them). Both unknowns follow from the two; each is noisy, so they are averaged apart and
    divided last. The average forgets: the noise scale grows during a run.

    Args:
        decay: share of the average that one update keeps.

    Examples:
        >>> meter = NoiseScale()
        >>> for _ in range(20):  # |G|^2 = 1 and tr(Sigma) = 100: 1 + 100/B at batch B
        ...     meter.update(small_square=1 + 100 / 10, big_square=1 + 100 / 40, small_batch=10, big_batch=40)
        >>> round(meter.critical_batch)
        100

    Source: McCandlish et al. 2018 (arXiv 1812.06162) appendix A.1; the critical batch is about the noise scale
        (section 2.3), an order of magnitude and not a limit.
    """

    def __init__(self, decay: float = 0.995) -> None:
        self._decay = decay
        self._noise = 0.0
        self._signal = 0.0
        self.num_updates = 0

    def update(self, *, small_square: float, big_square: float, small_batch: float, big_batch: float) -> None:
        """Take one step.

        Args:
            small_square: squared norm of the mean gradient of the small batch; the mean of several is better.
            big_square: the same of the large batch.
            small_batch: its size in samples.
            big_batch: its size in samples; an equal size says nothing and is passed over.
        """
        if big_batch <= small_batch or not math.isfinite(small_square) or not math.isfinite(big_square):
            return
        signal = (big_batch * big_square - small_batch * small_square) / (big_batch - small_batch)
        noise = (small_square - big_square) / (1.0 / small_batch - 1.0 / big_batch)
        self.num_updates += 1
        keep = min(self._decay, 1.0 - 1.0 / self.num_updates)  # a plain mean at first
        self._signal = keep * self._signal + (1.0 - keep) * signal
        self._noise = keep * self._noise + (1.0 - keep) * noise

    @property
    def critical_batch(self) -> float | None:
        """The noise scale in samples; None before 20 updates, or while noise hides the signal."""
        if self.num_updates < MIN_UPDATES or self._signal <= 0.0 or self._noise <= 0.0:
            return None
        return self._noise / self._signal

    def state(self) -> dict[str, float]:
        """What a checkpoint needs to go on: plain numbers."""
        return {"noise": self._noise, "signal": self._signal, "num_updates": self.num_updates}

    def restore(self, state: dict[str, float]) -> None:
        """Go on from `state()`."""
        self._noise, self._signal = float(state["noise"]), float(state["signal"])
        self.num_updates = int(state["num_updates"])
