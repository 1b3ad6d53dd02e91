"""`Regime` and `Workload`: bytes per parameter in a way of training, and the batch that one rank computes on."""

from __future__ import annotations

from typing import Final

from hemostat.config import Config


class Regime(Config, frozen=True, kw_only=True):
    """Bytes that a way of training holds per parameter.

    Attributes:
        name: as users say it.
        weight_bytes: of a parameter in the optimizer's and the module's own dtype.
        compute_bytes: of a parameter as products read it; another number than `weight_bytes` means copies.
        grad_bytes: of a gradient as it is kept until the step.
        optimizer_bytes: moments, and a master copy where there is one.
        reduce_bytes: of a gradient while it is summed over ranks.
        zero_stage: what data ranks divide: 0 nothing, 1 optimizer state, 2 gradients too, 3 weights too; FSDP is 3.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3 and table 1.
    """

    name: str
    weight_bytes: float = 4
    compute_bytes: float = 4
    grad_bytes: float = 4
    optimizer_bytes: float = 8
    reduce_bytes: float = 4
    zero_stage: int = 0


REGIMES: Final = (
    Regime(name="fp32"),
    Regime(name="autocast", compute_bytes=2),
    Regime(name="fsdp", compute_bytes=2, zero_stage=3),
    Regime(name="mixed", weight_bytes=2, compute_bytes=2, grad_bytes=2, optimizer_bytes=12, reduce_bytes=2),
    Regime(name="bf16", weight_bytes=2, compute_bytes=2, grad_bytes=2, optimizer_bytes=4, reduce_bytes=2),
    Regime(name="megatron", weight_bytes=2, compute_bytes=2, optimizer_bytes=12, zero_stage=1),
)


class Workload(Config, frozen=True, kw_only=True):
    """What one data rank computes in one optimizer step.

    Attributes:
        micro_batch: samples of one pass.
        accumulation: passes before the step; a pipeline's micro-batches.
        regime: bytes per parameter.
    """

    micro_batch: int
    accumulation: int = 1
    regime: Regime = REGIMES[0]
