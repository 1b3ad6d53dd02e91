"""`changes`: what one change at a time does for a layout that does not fit, in memory, speed and money."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from hemostat.config import Config
from hemostat.plan.candidates import cut_of, divisible_by
from hemostat.plan.cost import known_price
from hemostat.plan.hardware import Cluster, known_devices
from hemostat.plan.hardware import device as find_device
from hemostat.plan.layout import Layout
from hemostat.plan.prices import Price
from hemostat.plan.profile import Profile
from hemostat.plan.search import Choice, Goal, choice_of
from hemostat.units import format_bytes, format_usd

_LARGER: Final = 1.2  # times the memory, or it is no answer
_SAME: Final = 0.0005  # a difference of speed that is not printed


class Change(Config, frozen=True, kw_only=True):
    """One change, and what the run is with it.

    Attributes:
        what: the setting, as it is typed: "recompute=full".
        choice: the run with it.
        fits: it makes the run fit, the error bar included.
        slower: step time over that of the run that does not fit; below 1 it is faster.
        extra_usd: what it adds to the bill of the whole run; None where there is no price or no length.
    """

    what: str
    choice: Choice
    fits: bool
    slower: float
    extra_usd: float | None = None

    def sentence(self) -> str:
        """The setting, the memory with it, and what it costs."""
        speed = "as fast"
        if abs(self.slower - 1) > _SAME:
            speed = f"{abs(self.slower - 1):.1%} {'slower' if self.slower > 1 else 'faster'}"
        money = ""
        if self.extra_usd is not None:
            money = f", {format_usd(abs(self.extra_usd))} {'more' if self.extra_usd >= 0 else 'less'}"
        return f"{self.what}: {format_bytes(self.choice.memory.device.num_bytes)}, {speed}{money}"


def changes(
    profile: Profile, cluster: Cluster, goal: Goal, wanted: Layout, micro_batch: int
) -> tuple[Change, ...]:
    """Every single change that makes a run fit, the cheapest first.

    Args:
        profile: of the model.
        cluster: on which the run does not fit.
        goal: batch, length and price; without a price the fastest counts as the cheapest.
        wanted: the layout that does not fit.
        micro_batch: of it.

    Examples:
        >>> from hemostat.plan.families import Decoder, decoder_profile
        >>> large = Decoder(num_layers=24, hidden=1024, num_heads=16, num_kv_heads=16, head_width=64, ffn=4096,
        ...                 vocab=32000, num_tokens=1024)
        >>> found = changes(decoder_profile(large), Cluster.read("8xA100-40GB"), Goal(global_batch=1024),
        ...                 Layout(dp=8), micro_batch=128)
        >>> "micro_batch=16, accumulation=8" in [change.what for change in found]
        True
    """
    before = choice_of(profile, cluster, goal, (wanted, micro_batch))
    found = []
    is_small_enough = False
    for what, layout, samples in _single(profile, goal, wanted, micro_batch):
        if samples < micro_batch and is_small_enough:
            continue  # a smaller one is slower, and that is all
        choice = choice_of(profile, cluster, goal, (layout, samples))
        found.append(_change(what, choice, before, cluster))
        is_small_enough = is_small_enough or (samples < micro_batch and found[-1].fits)
    for grown, price in _larger(cluster, goal.price):
        choice = choice_of(profile, grown, msgspec.structs.replace(goal, price=price), (wanted, micro_batch))
        machine = f" ({price.instance})" if price else ""
        found.append(_change(f"devices of {grown.device.name}{machine}", choice, before, grown))
    fitting = [change for change in found if change.fits]
    return tuple(sorted(fitting, key=lambda each: (each.extra_usd is None, each.extra_usd, each.slower)))


def _change(what: str, choice: Choice, before: Choice, cluster: Cluster) -> Change:
    extra = None
    if choice.cost is not None and before.cost is not None:
        extra = choice.cost.usd - before.cost.usd
    per_sample = [each.step.step_s / each.step.num_samples for each in (choice, before)]
    return Change(
        what=what,
        choice=choice,
        fits=choice.is_safe(cluster.device.memory_bytes),
        slower=per_sample[0] / per_sample[1],
        extra_usd=extra,
    )


def _single(
    profile: Profile, goal: Goal, wanted: Layout, micro_batch: int
) -> Iterator[tuple[str, Layout, int]]:
    """(what is typed, layout, micro-batch) of every change of one setting."""
    smaller = micro_batch // 2
    while smaller:
        smaller, accumulation = cut_of(wanted, goal.global_batch, smaller)
        yield f"micro_batch={smaller}, accumulation={accumulation}", wanted, smaller
        smaller //= 2
    for recompute in ("selective", "full"):
        if wanted.recompute == "none" or (wanted.recompute, recompute) == ("selective", "full"):
            yield f"recompute={recompute}", msgspec.structs.replace(wanted, recompute=recompute), micro_batch
    if wanted.schedule == "gpipe":
        yield "schedule=1f1b", msgspec.structs.replace(wanted, schedule="1f1b"), micro_batch
    if not wanted.reshard:
        yield "reshard=true", msgspec.structs.replace(wanted, reshard=True), micro_batch
    for layout in _other_axes(profile, wanted):
        if micro_batch <= -(-goal.global_batch // layout.num_data_ranks):
            yield f'--layout "{layout}"', layout, micro_batch


def _other_axes(profile: Profile, wanted: Layout) -> Iterator[Layout]:
    """Copies become shards, or data ranks become ranks of one model."""
    copies = wanted.dp or 1
    if copies > 1:
        yield msgspec.structs.replace(wanted, dp=1, fsdp=wanted.fsdp * copies)
    for axis in ("pp", "tp"):
        limit = profile.num_blocks if axis == "pp" else divisible_by(profile)
        size = getattr(wanted, axis) * 2
        is_possible = limit % size == 0 if axis == "tp" else size * wanted.stages_per_rank <= limit
        taken = "dp" if copies % 2 == 0 else "fsdp" if wanted.fsdp % 2 == 0 else ""
        if taken and is_possible:
            more: dict[str, object] = {axis: size, taken: getattr(wanted, taken) // 2}
            if axis == "pp" and wanted.schedule is None:
                more["schedule"] = "1f1b"
            yield msgspec.structs.replace(wanted, **more)


def _larger(cluster: Cluster, price: Price | None) -> list[tuple[Cluster, Price | None]]:
    """As many devices of the same maker with more memory: the smallest with a price, or without where none has one.

    Where the user gave a price, those of the table are no measure for it.
    """
    found = []
    for name in known_devices():
        device = find_device(name)
        per_node = min(device.per_node, cluster.num_devices)
        is_larger = device.memory_bytes > _LARGER * cluster.device.memory_bytes
        if device.maker == cluster.device.maker and is_larger and cluster.num_devices % per_node == 0:
            grown = Cluster.read(f"{cluster.num_devices}x{name}")
            is_known = price is not None and price.kind != "given"
            own = known_price(grown, spot=price.kind == "spot") if price and is_known else None
            found.append((grown, own))
    found.sort(key=lambda each: (each[1] is None, each[0].device.memory_bytes))
    return found[:2]
