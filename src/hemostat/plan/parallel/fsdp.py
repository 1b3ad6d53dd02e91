"""What FSDP2 and ZeRO-3 hold for a moment: gathered parameters, and gradients on their way to their owners."""

from __future__ import annotations

from typing import NamedTuple

from hemostat.plan.layout import Layout
from hemostat.plan.workload import Regime

NUM_GATHERED_BLOCKS = 2  # the one that is computed and the one that is fetched meanwhile


class Units(NamedTuple):
    """Parameters of what is gathered together, on one process, before data ranks divide them.

    Attributes:
        root: outside of the blocks; gathered for the whole step.
        blocks: of all blocks.
        block: of the largest block.
    """

    root: float
    blocks: float
    block: float


def gathered_bytes(regime: Regime, layout: Layout, units: Units) -> float:
    """Gathered parameters while a block is computed, and the next one is fetched.

    Source: `fully_shard` of torch 2.9 to 2.13: the root's parameters stay, one all-gather is prefetched; without
        `reshard_after_forward` all stay. Measured by hemostat in bench/layouts.py.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> gathered_bytes(REGIMES[2], Layout(fsdp=8), Units(root=10, blocks=100, block=5))
        40.0
    """
    blocks = min(units.blocks, NUM_GATHERED_BLOCKS * units.block) if layout.reshard else units.blocks
    return float(regime.compute_bytes * (units.root + blocks))


def reduced_bytes(regime: Regime, units: Units) -> float:
    """Gradients of one block as they are computed, and those of the block before in the copy that is sent.

    Source: `foreach_reduce` of torch 2.9 to 2.13: the reduce-scatter's input is a copy in the reduce dtype, kept until
        the next block's is sent; gradients are freed once they are copied.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> reduced_bytes(REGIMES[2], Units(root=10, blocks=100, block=5))
        30.0
    """
    return float(units.block * (regime.compute_bytes + regime.reduce_bytes))


def aside_bytes(regime: Regime, units: Units, gradient_bytes: float) -> float:
    """What FSDP2's own streams hold in blocks that no other stream is given, even when they are free.

    Args:
        regime: bytes per parameter.
        units: that are gathered.
        gradient_bytes: of the shares of gradients that are freed after each step, and made on the stream that sums
            them.

    Source: `_fsdp_collectives.py` of torch 2.9 to 2.13: the flat result of an all-gather and that of a reduce-scatter
        are made on streams of their own; blocks of the caching allocator belong to the stream that asked for them.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> aside_bytes(REGIMES[2], Units(root=30, blocks=100, block=5), 8.0)
        68.0
    """
    return float(regime.compute_bytes * max(units.root, NUM_GATHERED_BLOCKS * units.block) + gradient_bytes)


def deferred_bytes(regime: Regime, layout: Layout, units: Units, num_micro_batches: int) -> float:
    """Whole gradients that a pipeline collects over its micro-batches before it shares them out.

    With m <= p each stage of an interleaved process ends its backward passes before the next one begins them, so
    that only one stage's gradients are whole at a time.

    Source: `_PipelineStageBase.backward_maybe_with_nosync` of torch 2.9 to 2.13 (no reduction before the last
        micro-batch); `FSDPParam.to_accumulated_grad_if_needed` (kept in the reduce dtype); order of passes as in
        hemostat.plan.pipelines.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> deferred_bytes(REGIMES[2], Layout(fsdp=8, pp=4), Units(root=10, blocks=100, block=5), 8)
        440.0
    """
    total = regime.reduce_bytes * (units.root + units.blocks)
    return float(total / layout.stages_per_rank if num_micro_batches <= layout.pp else total)
