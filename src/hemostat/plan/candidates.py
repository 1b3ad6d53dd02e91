"""Which layouts are possible at all: the divisors of the devices, of the heads and of the batch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import RECOMPUTE, Layout
from hemostat.plan.profile import Profile
from hemostat.plan.workload import REGIMES, Regime, Workload

# bytes per parameter of the moments in fp32
OPTIMIZER_BYTES: Final = {"adamw": 8.0, "adam": 8.0, "lamb": 8.0, "muon": 4.0, "lars": 4.0, "sgd": 4.0}
_PLAIN_STAGES: Final = 2  # of an interleaved rank
_MOST_STAGES: Final = 8  # of a rank; each of them costs a message more


def regime_of(
    layout: Layout, optimizer: str = "adamw", precision: str = "bf16", accumulation: int = 1
) -> Regime:
    """What `hemostat train` holds per parameter under a layout: weights in fp32, products in the run's precision.

    Args:
        layout: fsdp above 1 divides weights, gradients and moments.
        optimizer: whose moments are kept.
        precision: "fp32", "bf16" or "fp16".
        accumulation: above 1 a data-parallel gradient lies in `grad` and in DDP's bucket.

    Raises:
        UnknownNameError: an optimizer whose moments are not known.

    Source: hemostat.train.parallel.dp and fsdp; the second copy of gradients is measured by bench/layouts.py
        (`dp_peak_mb`: gradients are twice the parameters).

    Examples:
        >>> regime_of(Layout(fsdp=8)).zero_stage, regime_of(Layout(dp=8), accumulation=4).bucket_bytes
        (3, 4)
    """
    if optimizer not in OPTIMIZER_BYTES:
        raise UnknownNameError("optimizer", optimizer, OPTIMIZER_BYTES)
    named = {regime.name: regime for regime in REGIMES}
    chosen = named["fsdp" if layout.fsdp > 1 else "autocast"]
    moments = OPTIMIZER_BYTES[optimizer]
    return msgspec.structs.replace(
        chosen,
        compute_bytes=4 if precision == "fp32" else 2,
        optimizer_bytes=moments,
        step_bytes=chosen.step_bytes if moments == OPTIMIZER_BYTES["adamw"] else 0,
        bucket_bytes=4 if layout.fsdp == 1 and (layout.dp or 1) > 1 and accumulation > 1 else 0,
    )


def layouts(profile: Profile, cluster: Cluster, global_batch: int) -> Iterator[Layout]:
    """Every way to share a model among all devices of a cluster that its sizes allow.

    Tensor parallelism stays within a node. Shards are any number of the data ranks that fills nodes or divides one.
    Left out are the schedule gpipe, which takes as long as 1f1b and holds more, and offloading, which the trainer does
    not have; compiled blocks and the allocator's setting change no forecast.

    Args:
        profile: of the model.
        cluster: all of whose devices work.
        global_batch: samples of a step; no data rank is without one.

    Examples:
        >>> from hemostat.plan.families import Decoder, decoder_profile
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=4, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> found = layouts(decoder_profile(tiny), Cluster.read("4xA100-40GB"), 64)
        >>> sorted({str(layout) for layout in found})[:5]
        ['dp=2,fsdp=2', 'dp=2,tp=2', 'dp=4', 'fsdp=2,tp=2', 'fsdp=4']
    """
    num_devices = cluster.num_devices
    for tp in _divisors(math.gcd(cluster.per_node, divisible_by(profile))):
        for pp in _divisors(num_devices // tp):
            data_ranks = num_devices // (tp * pp)
            if pp > max(1, profile.num_blocks) or data_ranks > global_batch:
                continue
            near = math.gcd(max(1, cluster.per_node // tp), data_ranks)
            for fsdp in _divisors(data_ranks):
                if near % fsdp and fsdp % near:
                    continue
                yield from _variants(profile, Layout(dp=data_ranks // fsdp, fsdp=fsdp, tp=tp, pp=pp))


def is_plain(layout: Layout, cluster: Cluster) -> bool:
    """Shards are all of the data ranks, those of one node, or none, and stages take turns as 1f1b or interleaved by 2.

    Examples:
        >>> node = Cluster.read("8xA100-40GB")
        >>> is_plain(Layout(dp=1, fsdp=8), node), is_plain(Layout(dp=4, fsdp=2), node)
        (True, False)
    """
    data_ranks = layout.num_data_ranks
    near = math.gcd(max(1, cluster.per_node // layout.tp), data_ranks)
    is_usual = layout.schedule in (None, "1f1b") or layout.stages_per_rank == _PLAIN_STAGES
    return layout.fsdp in (1, near, data_ranks) and is_usual


def _variants(profile: Profile, axes: Layout) -> Iterator[Layout]:
    """The same axes with each schedule, with gathered parameters kept or dropped."""
    found = [axes]
    if axes.pp > 1:
        found = [msgspec.structs.replace(axes, schedule=name) for name in ("1f1b", "zero_bubble")]
        stages = 2
        while axes.pp * stages <= profile.num_blocks and stages <= _MOST_STAGES:
            found.append(msgspec.structs.replace(axes, schedule="interleaved", stages_per_rank=stages))
            stages *= 2
    for layout in found:
        yield layout
        if layout.fsdp > 1 and layout.pp == 1:
            yield msgspec.structs.replace(layout, reshard=False)


def divisible_by(profile: Profile) -> int:
    """What tensor parallelism may divide by: heads and the widths of cut matrices are whole multiples; 1 for none."""
    sizes = [
        {"columns": product.columns, "inner": product.inner, "count": product.count}[product.cut]
        for part in profile.parts
        if part.is_block
        for product in part.products
        if product.cut
    ]
    return math.gcd(*sizes) if sizes else 1


def cut_of(layout: Layout, global_batch: int, micro_batch: int) -> tuple[int, int]:
    """(samples of the largest pass, passes of a rank) of at most so many samples a pass, as `hemostat train` cuts.

    The ranks share the global batch out as it is: none is made larger to fill the passes up.

    Args:
        layout: whose data ranks share the batch.
        global_batch: samples of a step.
        micro_batch: the most that a pass may have.

    Raises:
        FieldError: fewer samples than data ranks.

    Source: exact arithmetic, that of hemostat.recipe.split_batch.

    Examples:
        >>> cut_of(Layout(dp=8), 100, 16), cut_of(Layout(dp=8), 100, 8)
        ((13, 1), (7, 2))
    """
    if global_batch < layout.num_data_ranks:
        raise FieldError(
            "global_batch",
            global_batch,
            f"leaves some of the {layout.num_data_ranks} data ranks of {layout} without a sample",
            f"Give {layout.num_data_ranks} or more, or a layout with fewer.",
        )
    share = -(-global_batch // layout.num_data_ranks)
    accumulation = -(-share // micro_batch)
    return -(-share // accumulation), accumulation


def workloads(layout: Layout, global_batch: int, optimizer: str, precision: str) -> Iterator[Workload]:
    """Passes of 1, 2, 4 ... samples and of all that a rank has, evened out over the passes that they need.

    A pipeline has at least a pass for each stage: with fewer, more than half of it is idle, and what is left of the
    step is host time that no published row tells.
    """
    share, _ = cut_of(layout, global_batch, global_batch)
    powers = (1 << power for power in range(share.bit_length()))
    for most in sorted({*powers, share}):
        micro_batch, accumulation = cut_of(layout, global_batch, most)
        if layout.pp > 1 and accumulation < layout.pp:
            continue
        regime = regime_of(layout, optimizer, precision, accumulation)
        yield Workload(micro_batch=micro_batch, accumulation=accumulation, regime=regime)


def recomputations(layout: Layout) -> Iterator[Layout]:
    """The same layout with ever more of the activations computed again; zero bubble splits backward and takes none."""
    for recompute in RECOMPUTE[:1] if layout.schedule == "zero_bubble" else RECOMPUTE:
        yield msgspec.structs.replace(layout, recompute=recompute)


def _divisors(number: int) -> list[int]:
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    return sorted({*small, *(number // each for each in small)})
