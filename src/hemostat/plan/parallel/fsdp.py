"""What FSDP2 and ZeRO-3 hold for a moment: gathered parameters, and gradients on their way to their owners."""

from __future__ import annotations

from typing import NamedTuple

from hemostat.plan.layout import Layout
from hemostat.plan.workload import Regime


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


def gathered_element_bytes(regime: Regime) -> float:
    """Bytes of a gathered parameter, and of its gradient before it is shared out.

    A regime of ZeRO stage 3 rounds parameters before it gathers them; others gather them as they are kept.

    Source: `MixedPrecisionPolicy.param_dtype` of torch 2.9 to 2.13; hemostat.train.parallel.fsdp has none.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> gathered_element_bytes(REGIMES[1]), gathered_element_bytes(REGIMES[2])
        (4, 2)
    """
    return regime.compute_bytes if regime.zero_stage == 3 else regime.weight_bytes


def gathered_bytes(regime: Regime, layout: Layout, units: Units, num_block_params: float) -> float:
    """Gathered parameters of the root, and of the blocks that are computed or fetched at the moment.

    Args:
        regime: bytes per parameter.
        layout: without `reshard` all blocks stay gathered.
        units: of the process.
        num_block_params: of the blocks that are needed now.

    Source: `fully_shard` of torch 2.9 to 2.13: the root's parameters stay, one all-gather is fetched ahead.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> gathered_bytes(REGIMES[2], Layout(fsdp=8), Units(root=10, blocks=100, block=5), 10)
        40.0
    """
    needed = num_block_params if layout.reshard else units.blocks
    return float(gathered_element_bytes(regime) * (units.root + needed))


def reduced_bytes(regime: Regime, num_params: float, num_before: float) -> float:
    """Gradients of one block as they are computed, and those of the block before in the copy that is sent.

    Args:
        regime: bytes per parameter.
        num_params: of the block.
        num_before: of the block that backward went through before it.

    Source: `foreach_reduce` of torch 2.9 to 2.13: the reduce-scatter's input is a copy in the reduce dtype, kept until
        the next block's is sent; gradients are freed once they are copied.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> reduced_bytes(REGIMES[2], 5, 5)
        30.0
    """
    return float(gathered_element_bytes(regime) * num_params + regime.reduce_bytes * num_before)


def summed_bytes(regime: Regime, num_params: float, num_shares: int) -> float:
    """Gradients of a unit at the moment at which they are summed, when its gathered parameters have gone.

    First they lie beside the copy that is sent; then they are freed, and the share that stays is made.

    Args:
        regime: bytes per parameter.
        num_params: of the unit.
        num_shares: processes that share it out.

    Source: `FSDPParamGroup.post_backward` of torch 2.9 to 2.13 (parameters are dropped first, and the copy of the unit
        before) and `foreach_reduce` (`unsharded_grads.clear()` before `reduce_output` is made).

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> summed_bytes(REGIMES[2], 8, 4)
        48.0
    """
    copying = gathered_element_bytes(regime) + regime.reduce_bytes
    summing = regime.reduce_bytes * (1 + 1 / num_shares) + regime.reduce_copy_bytes
    return float(num_params * max(copying, summing))


def aside_bytes(regime: Regime, units: Units, gradient_bytes: float) -> float:
    """What FSDP2's own streams hold in blocks that no other stream is given, even when they are free.

    Args:
        regime: bytes per parameter.
        units: that are gathered, two blocks at a time.
        gradient_bytes: of the shares of gradients that are freed after each step, and made on the stream that sums
            them.

    Source: `_fsdp_collectives.py` of torch 2.9 to 2.13: the flat result of an all-gather and that of a reduce-scatter
        are made on streams of their own; blocks of the caching allocator belong to the stream that asked for them.

    Examples:
        >>> from hemostat.plan.workload import REGIMES
        >>> aside_bytes(REGIMES[2], Units(root=30, blocks=100, block=5), 8.0)
        68.0
    """
    return float(gathered_element_bytes(regime) * max(units.root, 2 * units.block) + gradient_bytes)


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
