"""Bytes of weights, gradients and optimizer state per process, and what data parallelism divides of them."""

from __future__ import annotations

from typing import NamedTuple

from hemostat.plan.layout import Layout
from hemostat.plan.workload import Regime


class States(NamedTuple):
    """What lives through the whole step, in bytes on one process."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All three."""
        return self.weights + self.gradients + self.optimizer


def num_shares(regime: Regime, layout: Layout) -> tuple[int, int, int]:
    """Among how many processes weights, gradients and optimizer state are divided.

    `fsdp` divides all three. Copies along `dp` divide what the regime's ZeRO stage says, unless fsdp shares out
    the model within them already (hsdp).

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> num_shares(REGIMES[5], Layout(dp=8)), num_shares(REGIMES[2], Layout(dp=2, fsdp=4))
        ((1, 1, 8), (4, 4, 4))
    """
    inner = layout.fsdp
    copies = (layout.dp or 1) if inner == 1 else 1
    weights, gradients, optimizer = (
        inner * (copies if regime.zero_stage >= stage else 1) for stage in (3, 2, 1)
    )
    return weights, gradients, optimizer


def states(regime: Regime, layout: Layout, num_params: float, num_frozen_params: float = 0) -> States:
    """State bytes of one process.

    Args:
        regime: bytes per parameter.
        layout: what is divided.
        num_params: on this process before data ranks divide them.
        num_frozen_params: those of them without gradient and optimizer state.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), table 1 and section 5.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> round(states(REGIMES[3], Layout(dp=64), 7.5e9).total / 1e9)
        120
    """
    weights, gradients, optimizer = num_shares(regime, layout)
    trained = num_params - num_frozen_params
    return States(
        regime.weight_bytes * num_params / weights,
        regime.grad_bytes * trained / gradients,
        regime.optimizer_bytes * trained / optimizer,
    )
