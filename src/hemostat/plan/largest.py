"""`largest`: how large a batch, a sample and a model fit on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from hemostat.config import Config
from hemostat.plan.candidates import layouts, recomputations
from hemostat.plan.families import Decoder, decoder_profile
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.profile import Profile
from hemostat.plan.search import Choice, Goal, choice_of, search

_NUM_HALVINGS: Final = 6  # of the gap between a size that fits and twice that: 2 % of it


class Largest(Config, frozen=True, kw_only=True):
    """The largest of one size that fits, the error bar included.

    Attributes:
        what: "samples of one pass on all devices", "tokens of a sample" or "parameters".
        value: of it; 0 where not even the smallest fits.
        choice: the way to train it; None where nothing fits.
    """

    what: str
    value: int
    choice: Choice | None = None


def largest_batch(profile: Profile, cluster: Cluster, goal: Goal) -> Largest:
    """Samples that all devices together take in one pass, without accumulation.

    Examples:
        >>> tiny = Decoder(num_layers=2, hidden=64, num_heads=4, num_kv_heads=4, head_width=16, ffn=256, vocab=1000,
        ...                num_tokens=128)
        >>> largest_batch(decoder_profile(tiny), Cluster.read("V100-16GB"), Goal(global_batch=1)).value > 4096
        True
    """
    best = Largest(what="samples of one pass on all devices", value=0)
    plain = [
        axes for axes in layouts(profile, cluster, cluster.num_devices) if axes.pp == 1
    ]  # no accumulation
    for axes in sorted(plain, key=lambda each: (-each.fsdp, each.tp)):  # what takes most comes first
        for layout in reversed(list(recomputations(axes))):

            def of(micro_batch: int, layout: Layout = layout) -> Choice:
                one_pass = msgspec.structs.replace(goal, global_batch=micro_batch * layout.num_data_ranks)
                return choice_of(profile, cluster, one_pass, (layout, micro_batch))

            more = best.value // layout.num_data_ranks + 1
            found = _grow(lambda micro_batch: of(micro_batch).is_safe(cluster.device.memory_bytes), more)
            if found:
                best = Largest(what=best.what, value=found * layout.num_data_ranks, choice=of(found))
    return best


def largest_sample(decoder: Decoder, cluster: Cluster, goal: Goal) -> Largest:
    """Tokens of one sample, with the tokens of a step as they were as far as that goes."""
    tokens_per_step = goal.global_batch * decoder.num_tokens

    def of(num_tokens: int) -> tuple[Profile, Cluster, Goal]:
        batch = max(1, tokens_per_step // num_tokens)
        longer = decoder_profile(msgspec.structs.replace(decoder, num_tokens=num_tokens))
        return longer, cluster, msgspec.structs.replace(goal, global_batch=batch)

    value = _grow(lambda num_tokens: _fits(*of(num_tokens)), 128, _NUM_HALVINGS)
    return Largest(what="tokens of a sample", value=value, choice=_best(*of(value)) if value else None)


def largest_model(decoder: Decoder, cluster: Cluster, goal: Goal) -> Largest:
    """Parameters of a decoder with the same proportions: layers and width grow together."""
    layers = _grow(
        lambda number: _fits(decoder_profile(scaled(decoder, number)), cluster, goal), 1, _NUM_HALVINGS
    )
    if not layers:
        return Largest(what="parameters", value=0)
    grown = scaled(decoder, layers)
    choice = _best(decoder_profile(grown), cluster, goal)
    return Largest(what="parameters", value=grown.num_params, choice=choice)


def scaled(decoder: Decoder, num_layers: int) -> Decoder:
    """The same proportions with another number of layers; widths stay multiples of 8 heads where they were.

    Examples:
        >>> small = Decoder(num_layers=16, hidden=2048, num_heads=32, num_kv_heads=8, head_width=64, ffn=8192,
        ...                 vocab=1000, num_tokens=128)
        >>> wide = scaled(small, 32)
        >>> wide.hidden, wide.num_heads, wide.num_kv_heads, wide.ffn
        (4096, 64, 16, 16384)
    """
    groups = decoder.num_heads // decoder.num_kv_heads
    step = 8 if decoder.num_kv_heads % 8 == 0 else 1
    kv_heads = max(1, round(decoder.num_kv_heads * num_layers / decoder.num_layers / step)) * step
    hidden = kv_heads * groups * decoder.hidden // decoder.num_heads
    return msgspec.structs.replace(
        decoder,
        num_layers=num_layers,
        hidden=hidden,
        num_heads=kv_heads * groups,
        num_kv_heads=kv_heads,
        ffn=hidden * decoder.ffn // decoder.hidden,
    )


def _fits(profile: Profile, cluster: Cluster, goal: Goal) -> bool:
    """Some layout fits where it shares and computes again as much as it can, one sample at a time."""
    for layout in layouts(profile, cluster, goal.global_batch):
        if layout.dp == 1 and layout.reshard and layout.schedule in (None, "1f1b"):
            least = msgspec.structs.replace(layout, recompute="full")
            choice = choice_of(profile, cluster, goal, (least, 1))
            if choice.is_safe(cluster.device.memory_bytes):
                return True
    return False


def _best(profile: Profile, cluster: Cluster, goal: Goal) -> Choice | None:
    best = next(iter(search(profile, cluster, goal).choices), None)
    return best if best is not None and best.is_safe(cluster.device.memory_bytes) else None


def _grow(fits: Callable[[int], bool], start: int, num_halvings: int | None = None) -> int:
    """Double until it does not fit, then halve the gap, as often as said or to the end; 0: the start does not fit."""
    value, upper = 0, start
    while fits(upper):
        value, upper = upper, 2 * upper
    while value and upper - value > 1 and num_halvings != 0:
        middle = (value + upper) // 2
        value, upper = (middle, upper) if fits(middle) else (value, middle)
        num_halvings = None if num_halvings is None else num_halvings - 1
    return value
