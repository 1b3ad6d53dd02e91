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
    what = "samples of one pass on all devices"
    best = Largest(what=what, value=0)
    for axes in layouts(profile, cluster, cluster.num_devices):
        if axes.pp > 1:
            continue  # a pipeline lives on accumulation
        for layout in recomputations(axes):

            def with_samples(micro_batch: int, layout: Layout = layout) -> Choice | None:
                one_pass = msgspec.structs.replace(goal, global_batch=micro_batch * layout.num_data_ranks)
                choice = choice_of(profile, cluster, one_pass, (layout, micro_batch))
                return choice if choice.is_safe(cluster.device.memory_bytes) else None

            more = best.value // layout.num_data_ranks + 1
            found = _grow(what, with_samples, more)
            if found.choice is not None:
                best = Largest(what=what, value=found.value * layout.num_data_ranks, choice=found.choice)
    return best


def largest_sample(decoder: Decoder, cluster: Cluster, goal: Goal) -> Largest:
    """Tokens of one sample, with the tokens of a step as they were as far as that goes."""
    tokens_per_step = goal.global_batch * decoder.num_tokens

    def with_tokens(num_tokens: int) -> Choice | None:
        longer = msgspec.structs.replace(decoder, num_tokens=num_tokens)
        batch = max(1, tokens_per_step // num_tokens)
        return _fitting(decoder_profile(longer), cluster, msgspec.structs.replace(goal, global_batch=batch))

    return _grow("tokens of a sample", with_tokens, 128, _NUM_HALVINGS)


def largest_model(decoder: Decoder, cluster: Cluster, goal: Goal) -> Largest:
    """Parameters of a decoder with the same proportions: layers and width grow together."""
    found: dict[int, Choice | None] = {}
    sizes: dict[int, int] = {}

    def with_layers(num_layers: int) -> Choice | None:
        grown = scaled(decoder, num_layers)
        sizes[num_layers] = grown.num_params
        found[num_layers] = _fitting(decoder_profile(grown), cluster, goal)
        return found[num_layers]

    layers = _grow("layers", with_layers, 1, _NUM_HALVINGS)
    return Largest(what="parameters", value=sizes.get(layers.value, 0), choice=layers.choice)


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


def _fitting(profile: Profile, cluster: Cluster, goal: Goal) -> Choice | None:
    best = next(iter(search(profile, cluster, goal).choices), None)
    return best if best is not None and best.is_safe(cluster.device.memory_bytes) else None


def _grow(
    what: str, at: Callable[[int], Choice | None], start: int, num_halvings: int | None = None
) -> Largest:
    """Double until it does not fit, then halve the gap; None: until there is none."""
    value, choice = 0, None
    upper = start
    while (more := at(upper)) is not None:
        value, choice, upper = upper, more, 2 * upper
    if choice is None:
        return Largest(what=what, value=0)
    while upper - value > 1 and num_halvings != 0:
        middle = (value + upper) // 2
        more = at(middle)
        if more is None:
            upper = middle
        else:
            value, choice = middle, more
        num_halvings = None if num_halvings is None else num_halvings - 1
    return Largest(what=what, value=value, choice=choice)
