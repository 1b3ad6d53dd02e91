"""How long one optimizer step takes on a layout, in named terms, with tokens per second, MFU and an error bar."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hemostat.config import Config
from hemostat.plan.compute import Cut, Terms, part_s
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.parallel.pp import held_by
from hemostat.plan.parallel.tp import local_params
from hemostat.plan.pipelines import pipeline_bubble
from hemostat.plan.profile import Part, Profile
from hemostat.plan.traffic import collective_s, group
from hemostat.plan.workload import Workload

STEP_ERROR: Final = 0.18
"""The error bar of a step: nineteen of twenty steps that constants were chosen on are nearer.

Source: bench/plan_time.py, `step_error_95_pct`: the 95 % quantile of |predicted / measured - 1| with the default
    terms, each fitted table counting alike. What it covers of held-out steps is `held_out_inside_error_bar_pct`.
"""
_BUCKET_BYTES: Final = 25e6  # of torch's DDP
# of Megatron's distributed optimizer, in elements, at least, and for each rank
# (Megatron-LM, core/distributed/distributed_data_parallel.py)
_ZERO_BUCKET_PARAMS: Final = (40e6, 1e6)
# How sharply a pass takes the longer one of device and host: the exponent of a power mean.
# Source: bench/plan_time.py --fit: of 2, 3, 4 and 6 the least error on the rows that are not held out.
_SOFTNESS: Final = 4.0
_TERMS: Final = ("compute_s", "recompute_s", "tp_s", "send_s", "bubble_s", "gradient_s", "optimizer_s")


class Duration(Config, frozen=True, kw_only=True):
    """Where the seconds of one optimizer step go, on the slowest stage.

    Attributes:
        compute_s: forward and backward passes of all micro-batches.
        recompute_s: forward work that is done again.
        tp_s: collectives of tensor parallelism.
        send_s: activations and gradients between stages.
        bubble_s: waiting for other stages.
        gradient_s: reduction of gradients and gathering of parameters, as far as nothing hides it.
        optimizer_s: the update, and the gathering of parameters behind it.
        num_samples: of one step, all ranks together.
        num_tokens: the same in tokens.
        model_flop: of one step, all ranks together, without recomputation.
        peak_flop_per_s: of all devices together.
    """

    compute_s: float
    recompute_s: float
    tp_s: float
    send_s: float
    bubble_s: float
    gradient_s: float
    optimizer_s: float
    num_samples: int
    num_tokens: int
    model_flop: float
    peak_flop_per_s: float

    @property
    def step_s(self) -> float:
        """Seconds of one step: the sum of the terms."""
        return sum(self.terms.values())

    @property
    def terms(self) -> dict[str, float]:
        """The terms by name, in seconds."""
        return {name: getattr(self, name) for name in _TERMS}

    @property
    def tokens_per_s(self) -> float:
        """All devices together."""
        return self.num_tokens / self.step_s

    @property
    def error(self) -> float:
        """The error bar of `step_s`, as a part of it: `STEP_ERROR`, which nineteen of twenty fitted steps keep."""
        return STEP_ERROR

    @property
    def mfu(self) -> float:
        """Model FLOP per second over the peak of all devices; recomputation does not count.

        Source: Chowdhery et al. 2022 (arXiv 2204.02311), appendix B.
        """
        return self.model_flop / self.step_s / self.peak_flop_per_s


class _Stage(NamedTuple):
    """One micro-batch on one rank of the pipeline, in seconds, and what the rank holds."""

    forward_s: float = 0.0
    backward_s: float = 0.0
    again_s: float = 0.0
    tp_s: float = 0.0
    num_params: float = 0.0
    num_blocks: float = 0.0

    @property
    def busy_s(self) -> float:
        return self.forward_s + self.backward_s + self.again_s + self.tp_s


def duration(
    profile: Profile,
    layout: Layout,
    workload: Workload,
    cluster: Cluster,
    terms: Terms | None = None,
    borders: Sequence[int] | None = None,
) -> Duration:
    """Predict one optimizer step.

    The slowest rank of a pipeline sets the pace: its passes count, and the bubble of the schedule's closed form,
    of which a rank of average speed is the unit.

    Args:
        profile: of the model.
        layout: with `dp` and `schedule` known.
        workload: of one data rank; under `pp` its accumulation is the number of micro-batches.
        cluster: whose devices the ranks are.
        terms: fitted ones; None: those of the published measurements.
        borders: of the pipeline's stages; None: even ones.

    Raises:
        FieldError: the layout is for another number of devices, or fewer blocks than stages.

    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2, for the bubble; each other term names its own.
    """
    if layout.num_ranks != cluster.num_devices:
        layout.filled(cluster.num_devices)  # says what is wrong
    terms = terms or Terms()
    dtype = "bf16" if workload.regime.compute_bytes == 2 else "fp32"
    cut = Cut(workload.micro_batch, layout.tp, layout.sequence_parallel and layout.tp > 1, dtype)
    num_micro = workload.accumulation
    ones = {id(part): _part(part, layout, cut, cluster, terms) for part in profile.parts}
    stages = _stages(profile, layout, num_micro, ones, borders)
    slowest = max(stages, key=lambda stage: stage.busy_s)
    bubble_s = 0.0
    if layout.pp > 1:
        bubble = pipeline_bubble(layout.schedule or "1f1b", layout.pp, num_micro, layout.stages_per_rank)
        whole = _total(_times(part.count, ones[id(part)]) for part in profile.parts)
        bubble_s = bubble * num_micro * whole.busy_s / layout.pp
    num_samples = workload.micro_batch * num_micro * layout.num_data_ranks
    return Duration(
        compute_s=num_micro * (slowest.forward_s + slowest.backward_s),
        recompute_s=num_micro * slowest.again_s,
        tp_s=num_micro * slowest.tp_s,
        send_s=_send_s(profile, layout, workload, cluster, terms),
        bubble_s=bubble_s,
        gradient_s=max(_gradient_s(stage, layout, workload, cluster, terms) for stage in stages),
        optimizer_s=max(_optimizer_s(stage, layout, workload, cluster, terms) for stage in stages),
        num_samples=num_samples,
        num_tokens=num_samples * profile.num_tokens,
        model_flop=num_samples * profile.flop,
        peak_flop_per_s=cluster.num_devices * cluster.device.peak(dtype),
    )


def _stages(
    profile: Profile,
    layout: Layout,
    num_micro: int,
    ones: Mapping[int, _Stage],
    borders: Sequence[int] | None,
) -> list[_Stage]:
    """The positions of a pipeline; `ones` has one of each part by its identity."""
    stages = []
    for held in held_by(profile, layout, num_micro, borders):
        counted = [*((part, part.count) for part in (*held.head, *held.tail)), *held.blocks]
        stages.append(_total([_times(count, ones[id(part)]) for part, count in counted]))
    if layout.pp == 1:  # one rank holds what first and last part share once
        num_params = stages[0].num_params - profile.num_tied_params / layout.tp
        stages[0] = stages[0]._replace(num_params=num_params)
    return stages


def _times(count: int, stage: _Stage) -> _Stage:
    return _Stage(*(count * value for value in stage))


def _total(stages: Iterable[_Stage]) -> _Stage:
    return _Stage(*(sum(values) for values in zip(_Stage(), *stages, strict=True)))


def _part(part: Part, layout: Layout, cut: Cut, cluster: Cluster, terms: Terms) -> _Stage:
    """One of the equal ones of a part.

    The host runs ahead of the device, so that a pass takes about the longer of both: where the host is the slower one,
    collectives between its kernels cost next to nothing.
    """
    one = part_s(part, cut, cluster.device, terms)
    sum_s = _sums_s(part, layout, cut, cluster, terms)
    forward_s, forward_tp_s = _longer(one.forward_s, sum_s, one.start_s)
    backward_s, backward_tp_s = _longer(one.backward_s, sum_s, 2.0 * one.start_s)
    again_s = again_tp_s = 0.0
    if part.is_block and layout.recompute == "full":
        again_s, again_tp_s = forward_s, forward_tp_s
    elif part.is_block and layout.recompute == "selective":
        again_s, _ = _longer(one.again_s, 0.0, one.start_s / 2.0)
    return _Stage(
        forward_s=forward_s,
        backward_s=backward_s,
        again_s=again_s,
        tp_s=forward_tp_s + backward_tp_s + again_tp_s,
        num_params=local_params(part, layout),
        num_blocks=part.is_block,
    )


def _longer(compute_s: float, sum_s: float, start_s: float) -> tuple[float, float]:
    """What a pass takes without its collectives, and what these add.

    Source: measured with bench/plan_time.py --fit, see `_SOFTNESS`.
    """
    alone_s = _either(compute_s, start_s)
    return alone_s, _either(compute_s + sum_s, start_s) - alone_s


def _either(device_s: float, host_s: float) -> float:
    """The longer one, and more where both are alike: some kernels wait for the host, and others keep it waiting."""
    longer_s = max(device_s, host_s)
    if longer_s == 0.0:
        return 0.0
    share = min(device_s, host_s) / longer_s
    return longer_s * math.pow(1.0 + math.pow(share, _SOFTNESS), 1.0 / _SOFTNESS)


def _sums_s(part: Part, layout: Layout, cut: Cut, cluster: Cluster, terms: Terms) -> float:
    """Collectives of one pass of one part: a sum for each product that is cut along its inner size.

    A part whose products are all cut along columns (the head) or that has none (the embedding) sums once, in one of
    its passes: half of it counts in each.

    Source: Shoeybi et al. 2019 (arXiv 1909.08053), section 3; Korthikanti et al. 2022 (arXiv 2205.05198),
        section 4.2.2: with sequence parallelism a gather and a scatter take the place of each sum.
    """
    if layout.tp == 1 or not part.num_tp_params:
        return 0.0
    num_sums = sum(product.count for product in part.products if product.cut == "inner") or 0.5
    ranks = group(layout, "tp", cluster)
    num_bytes = part.input_bytes * cut.micro_batch
    kinds = ("all_gather", "reduce_scatter") if cut.sequence_parallel else ("all_reduce",)
    return num_sums * sum(collective_s(kind, num_bytes, ranks, cluster, terms.shares) for kind in kinds)


def _send_s(profile: Profile, layout: Layout, workload: Workload, cluster: Cluster, terms: Terms) -> float:
    """Each micro-batch comes in and its gradient goes out, once for each stage of the rank; filling adds p - 1.

    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2 for the passes of a schedule, section 4.1 for the
        shares that Megatron's ranks send and gather.
    """
    if layout.pp == 1:
        return 0.0
    num_bytes = max((part.input_bytes for part in profile.parts if part.is_block), default=0.0)
    num_bytes *= workload.micro_batch
    is_split = workload.regime.engine == "megatron" and layout.tp > 1 and not layout.sequence_parallel
    one_s = 0.0
    if is_split:
        one_s = collective_s("all_gather", num_bytes, group(layout, "tp", cluster), cluster, terms.shares)
    if is_split or layout.sequence_parallel:
        num_bytes /= layout.tp
    one_s += collective_s("send", num_bytes, group(layout, "pp", cluster), cluster, terms.shares)
    return 2.0 * (workload.accumulation + layout.pp - 1) * layout.stages_per_rank * one_s


def _gradient_s(stage: _Stage, layout: Layout, workload: Workload, cluster: Cluster, terms: Terms) -> float:
    """What of the traffic along dp and fsdp the passes of one rank do not hide.

    FSDP gathers each block for each pass and reduces its gradients; a stage of a pipeline keeps what it gathered
    and reduces once, when the step is over.

    Source: Zhao et al. 2023 (arXiv 2304.11277), section 3; Li et al. 2020 (arXiv 2006.15704), section 3.2, for
        buckets of 25 MB; Rajbhandari et al. 2020 (arXiv 1910.02054), section 7, for the volumes of ZeRO.
    """
    regime = workload.regime
    num_units = max(1.0, stage.num_blocks)

    def traffic_s(kind: str, num_bytes: float, axis: str, num_messages: float) -> float:
        ranks = group(layout, axis, cluster)
        return num_messages * collective_s(kind, num_bytes / num_messages, ranks, cluster, terms.shares)

    weights, grads = stage.num_params * regime.compute_bytes, stage.num_params * regime.reduce_bytes
    gather_s = traffic_s("all_gather", weights, "fsdp", num_units)
    scatter_s = traffic_s("reduce_scatter", grads, "fsdp", num_units)
    kind, bucket_bytes = "all_reduce", _BUCKET_BYTES
    if regime.zero_stage in (1, 2):
        least, each = _ZERO_BUCKET_PARAMS
        kind, bucket_bytes = "reduce_scatter", max(least, each * (layout.dp or 1)) * regime.reduce_bytes
    num_buckets = max(1.0, grads / layout.fsdp / bucket_bytes) if regime.overlaps else 1.0
    sum_s = traffic_s(kind, grads / layout.fsdp, "dp", num_buckets)
    keeps = layout.pp > 1
    num_rounds = 1 if keeps else workload.accumulation
    regather_s = gather_s if layout.reshard and not keeps else 0.0
    overlap = terms.overlap if regime.overlaps else 0.0
    backward_s = stage.backward_s + stage.again_s
    returned_s = regather_s + scatter_s
    exposed_s = _exposed_s(gather_s, stage.forward_s, overlap) + _exposed_s(returned_s, backward_s, overlap)
    return num_rounds * exposed_s + _exposed_s(sum_s, max(0.0, backward_s - returned_s), overlap)


def _exposed_s(traffic_s: float, compute_s: float, overlap: float) -> float:
    """What is left of traffic beside a pass.

    Source: measured with bench/plan_time.py: the more of the passes' time llm-foundry's FSDP has traffic, the more is
        missing where all of it is hidden; a share of the traffic explains it.
    """
    return traffic_s - min(overlap * traffic_s, compute_s)


def _optimizer_s(stage: _Stage, layout: Layout, workload: Workload, cluster: Cluster, terms: Terms) -> float:
    """Read and write weights and states, read gradients, once; ZeRO 1 and 2 gather the weights behind it.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), sections 3 and 7: what is held, and who updates what.
    """
    regime = workload.regime
    num_params = stage.num_params / layout.fsdp
    gather_s = 0.0
    if regime.zero_stage in (1, 2):
        ranks = group(layout, "dp", cluster)
        gather_s = collective_s("all_gather", num_params * regime.compute_bytes, ranks, cluster, terms.shares)
        num_params /= layout.dp or 1
    num_bytes = num_params * (2 * regime.weight_bytes + 2 * regime.optimizer_bytes + regime.grad_bytes)
    return num_bytes / (cluster.device.hbm_bytes_per_s * terms.memory) + gather_s
