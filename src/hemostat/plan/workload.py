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
        reduce_copy_bytes: of a further copy that is made for a reduce-scatter: gloo sums a copy, NCCL needs none.
        zero_stage: what data ranks divide: 0 nothing, 1 optimizer state, 2 gradients too, 3 weights too; FSDP is 3.
        holds_grads: gradients keep their memory between steps (Megatron's and DDP's buffers, or zeroing in place).
        bucket_bytes: of a second copy of each gradient, DDP's buckets without `gradient_as_bucket_view`.
        step_bytes: of the optimizer step's temporaries: one list of the parameters' size in a foreach AdamW, 0 in a
            fused one.
        loads_whole: each process puts the whole model on its device before it is shared out.
        engine: whose habits come on top. "torch": a pipeline has buffers for every micro-batch and keeps the results
            of the last stage (`torch.distributed.pipelining`). "megatron": one gradient of each matrix shape stays
            allocated in the compute dtype (Transformer Engine's placeholders beside the main gradients), and each
            tensor-parallel rank sends its share of an activation to the next stage, where they gather it.
        overlaps: gradients and gathered weights travel while passes compute, and not when they are over.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 3 and table 1; `torch.optim.adamw`
        (`_multi_tensor_adamw`: the square roots are a new list); `reduce_scatter_tensor_coalesced` of
        `ProcessGroupGloo.cpp` (its all-reduce works on a clone); `get_dummy_wgrad` of Transformer Engine's
        `module/base.py`, which keeps each gradient it made by its shape; Narayanan et al. 2021 (arXiv 2104.04473),
        section 4.1, for what Megatron sends.
    """

    name: str
    weight_bytes: float = 4
    compute_bytes: float = 4
    grad_bytes: float = 4
    optimizer_bytes: float = 8
    reduce_bytes: float = 4
    reduce_copy_bytes: float = 0
    zero_stage: int = 0
    holds_grads: bool = False
    bucket_bytes: float = 0
    step_bytes: float = 4
    loads_whole: bool = False
    engine: str = "torch"
    overlaps: bool = True


REGIMES: Final = (
    Regime(name="fp32"),
    Regime(name="autocast", compute_bytes=2),
    Regime(name="fsdp", compute_bytes=2, zero_stage=3),
    Regime(name="mixed", weight_bytes=2, compute_bytes=2, grad_bytes=2, optimizer_bytes=12, reduce_bytes=2),
    Regime(
        name="bf16",
        weight_bytes=2,
        compute_bytes=2,
        grad_bytes=2,
        optimizer_bytes=4,
        reduce_bytes=2,
        step_bytes=2,
    ),
    Regime(
        name="megatron",
        weight_bytes=2,
        compute_bytes=2,
        optimizer_bytes=12,
        zero_stage=1,
        holds_grads=True,
        step_bytes=0,
        engine="megatron",
    ),
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
