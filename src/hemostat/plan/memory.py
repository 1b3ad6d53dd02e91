"""`peak`: how much memory a layout needs, on which stage, in which phase of a step, and which tensors it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hemostat.config import Config
from hemostat.plan import allocator
from hemostat.plan.allocator import Size
from hemostat.plan.layout import Layout
from hemostat.plan.load import Load
from hemostat.plan.parallel.pp import held_by
from hemostat.plan.phases import moments_of
from hemostat.plan.profile import Profile
from hemostat.plan.workload import Workload

# Of allocated bytes: nine of ten rows that may be fitted on are nearer, SimuMax's and vramcalc's counting alike.
# Source: `allocated_error_90_pct` of bench/plan_memory.py.
ALLOCATED_ERROR: Final = 0.024


class Item(Config, frozen=True, kw_only=True):
    """Tensors of one kind: "weights", "logits"."""

    name: str
    num_bytes: float


class Moment(Config, frozen=True, kw_only=True):
    """What one process holds at one time.

    Attributes:
        stage: position on the pp axis, from 0.
        phase: "end of forward", "loss", "first backward block", "backward block", "last backward block",
            "reduce-scatter", "optimizer step", "initialisation" or "checkpoint load".
        items: what is held, the largest first.
    """

    stage: int
    phase: str
    items: tuple[Item, ...]

    @property
    def num_bytes(self) -> float:
        """All of it."""
        return sum(item.num_bytes for item in self.items)


class Forecast(Config, frozen=True, kw_only=True):
    """The memory of the fullest process, and of every stage and phase that was looked at.

    Attributes:
        peak: when and where it is, and of what.
        moments: the others too; between the first stage and the last only the second one, where stages are even.
        allocated: bytes in tensors at the peak.
        reserved: what the allocator takes from the device for them, and for what it keeps for other streams.
        device: reserved, with what lies outside of the allocator.
    """

    peak: Moment
    moments: tuple[Moment, ...]
    allocated: Size
    reserved: Size
    device: Size

    def fits(self, device_bytes: float) -> bool:
        """Tell whether the expected need is within a device's memory.

        Args:
            device_bytes: what the driver offers, as `nvidia-smi` shows it.
        """
        return self.device.num_bytes <= device_bytes


def peak(
    profile: Profile, layout: Layout, workload: Workload, borders: Sequence[int] | None = None
) -> Forecast:
    """The peak memory of one process: the largest of all moments of a step, never their sum.

    Args:
        profile: the model, traced or of a known family.
        layout: how the processes share the work; `dp` None counts as 1.
        workload: micro-batch, accumulation, and bytes per parameter.
        borders: of the pipeline's stages; None: even ones.

    Raises:
        FieldError: fewer blocks than stages.

    Source: the terms in hemostat.plan.parallel and hemostat.plan.phases; checked against published peaks by
        bench/plan_memory.py.

    Examples:
        >>> from hemostat.plan.families import Decoder, decoder_profile
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=2, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> found = peak(decoder_profile(tiny), Layout(), Workload(micro_batch=8))
        >>> found.peak.phase, found.peak.items[0].name
        ('loss', 'temporaries of the loss')
    """
    moments, aside = [], 0.0
    for held in held_by(profile, layout, workload.accumulation, borders):
        load = Load(profile, held, layout, workload)
        for phase, items in moments_of(load):
            total = sum(items.values())
            moments.append((total, held.rank, phase, items))
        aside = max(aside, load.aside_bytes)
    moments.sort(key=lambda each: -each[0])
    shown = tuple(_moment(*each[1:]) for each in moments)
    allocated = _with_error(moments[0][0])
    reserved = allocator.reserved(allocated, aside)
    return Forecast(
        peak=shown[0],
        moments=shown,
        allocated=allocated,
        reserved=reserved,
        device=allocator.on_device(reserved, layout.num_ranks),
    )


def _with_error(num_bytes: float) -> Size:
    low, high = num_bytes * (1 - ALLOCATED_ERROR), num_bytes * (1 + ALLOCATED_ERROR)
    return Size(num_bytes=num_bytes, low_bytes=low, high_bytes=high)


def _moment(stage: int, phase: str, items: dict[str, float]) -> Moment:
    ranked = sorted(items.items(), key=lambda each: -each[1])
    return Moment(
        stage=stage,
        phase=phase,
        items=tuple(Item(name=name, num_bytes=size) for name, size in ranked if size > 0),
    )
