"""Which parts of a model a process of a pipeline holds, and for how many micro-batches at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from hemostat.errors import FieldError
from hemostat.plan.layout import Layout
from hemostat.plan.pipelines import PATTERNS, Size
from hemostat.plan.profile import Part, Profile
from hemostat.plan.stages import balance


class Held(NamedTuple):
    """What one position of the pipeline holds.

    Attributes:
        rank: position on the pp axis.
        head: parts before the first block, on the first position only.
        blocks: kinds of blocks with their numbers, in order.
        tail: parts after the last block, on the last position only.
        num_in_flight: micro-batches whose activations are held at once, counted in whole passes of all its stages.
        num_tails: micro-batches whose loss is held at once: one, where backward follows it at once.
        num_waiting: of those in flight, whose weight part is put off ("zero_bubble").
        received_bytes: of one sample's inputs that come from other positions, over all its stages, undivided.
        sent_bytes: of what its stages send on.
    """

    rank: int
    head: tuple[Part, ...]
    blocks: tuple[tuple[Part, int], ...]
    tail: tuple[Part, ...]
    num_in_flight: float
    num_tails: int = 1
    num_waiting: int = 0
    received_bytes: float = 0.0
    sent_bytes: float = 0.0


def even_borders(num_blocks: int, num_stages: int) -> tuple[int, ...]:
    """Where blocks are cut into stages that differ by one block at most, the larger ones first.

    Raises:
        FieldError: fewer blocks than stages.

    Source: whole numbers that differ by one at most; `hemostat.plan.balance` cuts equal blocks at the same places.

    Examples:
        >>> even_borders(10, 4)
        (0, 3, 6, 8, 10)
    """
    if num_blocks < num_stages:
        raise FieldError(
            "layout.pp",
            num_stages,
            f"makes more stages than the {num_blocks} blocks of the model",
            f"Give a layout with pp * stages_per_rank of {max(num_blocks, 1)} or less.",
        )
    size, num_larger = divmod(num_blocks, num_stages)
    return tuple(size * stage + min(stage, num_larger) for stage in range(num_stages + 1))


def even_pace(profile: Profile, num_stages: int) -> tuple[int, ...]:
    """Where `hemostat train` cuts: the slowest stage has as little to compute as can be, the head counts.

    Source: hemostat.train.parallel.arrange, which balances the operations of a forward pass.

    Examples:
        >>> from hemostat.plan.profile import Product
        >>> one = (Product(rows=1, inner=8, columns=8),)
        >>> block, head = Part(name="block", count=8, products=one, is_block=True), Part(name="head", products=2 * one)
        >>> even_pace(Profile(name="small", parts=(block, head)), 2)
        (0, 5, 8)
    """
    head, blocks, tail = split(profile)
    costs = [cost for part, count in blocks if part.is_block for cost in [part.flop] * count]
    outer = (sum(part.count * part.flop for part in parts) for parts in (head, tail))
    return _balanced(tuple(costs), num_stages, *outer)


_balanced = functools.lru_cache(maxsize=1 << 10)(balance)  # a search asks for the same cut again and again


def held_by(
    profile: Profile, layout: Layout, num_micro_batches: int, borders: Sequence[int] | None = None
) -> tuple[Held, ...]:
    """What the positions of a pipeline hold; only those that can be the fullest where blocks are alike.

    Activations in flight never become more from one position to the next, so between the first position and the last
    one the foremost of those with so many blocks holds most; where weight parts are put off, the last but one does.

    Args:
        profile: the model.
        layout: with its schedule known (`Layout.filled`), or 1f1b.
        num_micro_batches: of a step.
        borders: of the stages (`hemostat.plan.balance`); None: even ones.

    Raises:
        FieldError: fewer blocks than stages.
    """
    head, blocks, tail = split(profile)
    if layout.pp == 1:
        return (Held(0, head, blocks, tail, 1),)
    stages_per_rank, last = layout.stages_per_rank, layout.num_stages - 1
    cuts = even_borders(profile.num_blocks, layout.num_stages) if borders is None else borders
    name = layout.schedule or ("interleaved" if stages_per_rank > 1 else "1f1b")
    size = Size(layout.pp, num_micro_batches, stages_per_rank)
    found = []
    for rank in _fullest(layout, cuts) if len(blocks) == 1 else range(layout.pp):
        stages = range(rank, layout.num_stages, layout.pp)
        pairs = PATTERNS[name].in_flight(rank, size)
        found.append(
            Held(
                rank,
                head if rank == 0 else (),
                tuple(each for stage in stages for each in _slice(blocks, cuts[stage], cuts[stage + 1])),
                tail if last in stages else (),
                pairs / stages_per_rank,
                num_micro_batches if name == "gpipe" else 1,
                pairs - PATTERNS["1f1b"].in_flight(rank, size) if name == "zero_bubble" else 0,
                sum(_input_bytes(blocks, cuts[stage]) for stage in stages if stage > 0),
                sum(_input_bytes(blocks, cuts[stage + 1]) for stage in stages if stage < last),
            )
        )
    return tuple(found)


def _fullest(layout: Layout, cuts: Sequence[int]) -> list[int]:
    """Both ends, the last but one, and between them the first position with each number of blocks."""
    foremost: dict[int, int] = {}
    for rank in range(1, layout.pp - 1):
        stages = range(rank, layout.num_stages, layout.pp)
        foremost.setdefault(sum(cuts[stage + 1] - cuts[stage] for stage in stages), rank)
    return sorted({0, *foremost.values(), layout.pp - 2, layout.pp - 1})


def split(profile: Profile) -> tuple[tuple[Part, ...], tuple[tuple[Part, int], ...], tuple[Part, ...]]:
    """Parts before the first block, blocks with their numbers, parts after them; a part between goes with the blocks.

    A model without blocks is all tail, but for its first part.
    """
    parts = profile.parts
    where = [index for index, part in enumerate(parts) if part.is_block]
    if not where:
        return parts[:-1], (), parts[-1:]
    first, last = where[0], where[-1]
    return parts[:first], tuple((part, part.count) for part in parts[first : last + 1]), parts[last + 1 :]


def _slice(blocks: tuple[tuple[Part, int], ...], begin: int, end: int) -> list[tuple[Part, int]]:
    found, position = [], 0
    for part, count in blocks:
        number = min(end, position + count) - max(begin, position)
        if number > 0 and part.is_block:
            found.append((part, number))
        elif not part.is_block and begin < position <= end:
            found.append((part, count))
        position += count if part.is_block else 0
    return found


def _input_bytes(blocks: tuple[tuple[Part, int], ...], cut: int) -> float:
    """Of the block that comes after a cut."""
    return next(part.input_bytes for part, _ in _slice(blocks, cut, cut + 1) if part.is_block)
