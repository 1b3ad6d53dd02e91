"""`profile_from`: the parts of a plan's profile from two traced passes, one with twice the samples of the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from torch import Tensor, nn

from hemostat.plan import Kept, Part, Product, Profile
from hemostat.task.batch import tensors
from hemostat.task.traced_pass import Blocks, Pass

_NOTEWORTHY: Final = 0.01  # of what is kept: less is not worth a sentence


class _Line(NamedTuple):
    """Bytes by number of samples; below 0 `fixed` says that they grow faster than the samples do."""

    per_sample: float
    fixed: float


def profile_from(
    model: nn.Module, blocks: Blocks, passes: tuple[Pass, Pass], plan: Mapping[str, str]
) -> Profile:
    """Put together what two passes saw.

    Args:
        model: that was traced.
        blocks: its blocks by name, in the order in which they are called.
        passes: with n and with 2 n samples.
        plan: module to its word of a tensor plan.
    """
    once = passes[0]
    names = ["before the blocks", *(name for name, _ in blocks), "head and loss"]
    kept, fixed_bytes, notes = _kept(passes, blocks)
    passing, forward_passing = (_passing(passes, backward=backward) for backward in (True, False))
    if any(line.fixed > line.per_sample * once.num_samples for line in passing):
        notes.append(
            "More of what passes in backward is the same for any micro-batch than grows with it; left out."
        )
    params, num_tied = _params(model, blocks, once, plan)
    parts = []
    for number, name in enumerate(names):
        inputs = [found.input_bytes.get(number - 1, 0) if number else _batch_bytes(found) for found in passes]
        parts.append(
            Part(
                name=name,
                num_params=params[number][0],
                num_tp_params=params[number][1],
                num_frozen_params=params[number][2],
                products=_products(once, number),
                moved_bytes=_moved(once, number),
                kept=kept[number],
                input_bytes=_line(passes, (inputs[0], inputs[1])).per_sample,
                passing_bytes=passing[number].per_sample,
                forward_passing_bytes=forward_passing[number].per_sample,
                is_block=0 < number <= len(blocks),
            )
        )
    return Profile(
        name=type(model).__name__,
        parts=tuple(_joined(parts)),
        num_tokens=_num_tokens(once.batch),
        num_tied_params=num_tied,
        num_buffer_bytes=round(fixed_bytes) + sum(map(_num_bytes, model.buffers())),
        source="traced",
        notes=tuple(notes),
    )


def _passing(passes: tuple[Pass, Pass], *, backward: bool) -> list[_Line]:
    once, twice = (found.passing_bytes(backward=backward) for found in passes)
    return [_line(passes, pair) for pair in zip(once, twice, strict=True)]


def _kept(passes: tuple[Pass, Pass], blocks: Blocks) -> tuple[list[tuple[Kept, ...]], float, list[str]]:
    """By part; what does not grow with the samples, all together; and what is worth a sentence."""
    once, twice = (found.named(blocks) for found in passes)
    parts: list[dict[Kept, float]] = [{} for _ in range(len(blocks) + 2)]  # each tensor without its size
    extra = {id(held) for found in passes for held in found.extra}
    fixed = faster = total = 0.0
    for key in once | twice:
        held = once.get(key) or twice[key]
        pair = [found[key].num_bytes if key in found else 0 for found in (once, twice)]
        line = _line(passes, (pair[0], pair[1]))
        is_extra = id(held) in extra
        kept = Kept(name=key[1], num_bytes=0, share=held.share, is_cheap=held.is_cheap, is_extra=is_extra)
        parts[key[0]][kept] = parts[key[0]].get(kept, 0.0) + line.per_sample
        if not is_extra:
            fixed, faster = fixed + max(0.0, line.fixed), faster + max(0.0, -line.fixed)
            total += pair[0]
    batch = Kept(name="the batch", num_bytes=0)
    parts[0] = {batch: _batch_bytes(passes[0]) / passes[0].num_samples, **parts[0]}
    notes = []
    if fixed > _NOTEWORTHY * total:
        notes.append(f"{fixed:.0f} kept bytes do not grow with the samples; they count as buffers.")
    if faster > _NOTEWORTHY * total:
        notes.append(
            "Some of what is kept grows faster than the samples: the figures hold for micro-batches of "
            f"{passes[1].num_samples}."
        )
    if any("attention_for_cpu" in name for _, name, _ in once):
        notes.append(
            "Fused attention is the CPU's kernel: query, key, value, output and log-sum-exp are kept, as by "
            "flash attention on a GPU."
        )
    sized = [
        tuple(msgspec.structs.replace(kept, num_bytes=size) for kept, size in part.items() if size)
        for part in parts
    ]
    return sized, fixed, notes


def _line(passes: tuple[Pass, Pass], pair: tuple[float, float]) -> _Line:
    """The straight line through two points; where it would start below nothing, the one from nothing to the second."""
    first, second = passes[0].num_samples, passes[1].num_samples
    slope = (pair[1] - pair[0]) / (second - first)
    fixed = pair[0] - slope * first
    if slope < 0:
        return _Line(max(pair[0] / first, pair[1] / second), 0.0)
    return _Line(pair[1] / second if fixed < 0 else slope, fixed)


def _params(
    model: nn.Module, blocks: Blocks, found: Pass, plan: Mapping[str, str]
) -> tuple[list[tuple[int, int, int]], int]:
    """By part: all parameters, those that tensor parallelism divides, the frozen ones; and how many count twice."""
    parts, num_tied = [(0, 0, 0)] * (len(blocks) + 2), 0
    inside = {
        id(param): number for number, (_, block) in enumerate(blocks, 1) for param in block.parameters()
    }
    for name, param in model.named_parameters():
        readers = sorted({found.part_of(place) for place in found.timeline.readers_of(found.weights[name])})
        owners = readers if len(readers) == 2 else [inside.get(id(param), readers[0] if readers else 0)]
        num_tied += param.numel() * (len(owners) - 1)
        word = plan.get(name.rpartition(".")[0], "")
        is_divided = word in ("colwise", "vocab_in", "vocab_out") or (word == "rowwise" and param.dim() > 1)
        for part in owners:
            total, divided, frozen = parts[part]
            parts[part] = (
                total + param.numel(),
                divided + param.numel() * is_divided,
                frozen + param.numel() * (not param.requires_grad),
            )
    return parts, num_tied


def _products(found: Pass, part: int) -> tuple[Product, ...]:
    """Of one sample, equal ones together."""
    counted: Counter[Product] = Counter()
    for computed in found.timeline.products:
        if found.part_of(computed.place) == part:
            product, samples = computed.product, found.num_samples
            rows, count = product.rows, product.num
            if product.has_weight:
                rows = math.ceil(rows / samples)
            else:
                count = math.ceil(count / samples)
            one = Product(
                rows=rows,
                inner=product.inner,
                columns=product.columns,
                has_weight=product.has_weight,
                cut=computed.cut,
                density=product.density,
            )
            counted[one] += count
    return tuple(msgspec.structs.replace(one, count=count) for one, count in counted.items())


def _moved(found: Pass, part: int) -> float:
    """Per sample."""
    moved = found.timeline.moved_bytes.items()
    return sum(size for place, size in moved if found.part_of(place) == part) / found.num_samples


def _joined(parts: list[Part]) -> Iterator[Part]:
    """Equal neighbours as one part with a count; parts with nothing in them are left out."""
    row: list[Part] = []
    for part in parts:
        if not (part.is_block or part.num_params or part.kept or part.products or part.moved_bytes):
            continue
        if row and _alike(row[0], part):
            row.append(part)
        else:
            yield from _one(row)
            row = [part]
    yield from _one(row)


def _alike(first: Part, second: Part) -> bool:
    """But for the name and what passes, which the last block has less of."""
    return first.is_block and first == msgspec.structs.replace(
        second,
        name=first.name,
        passing_bytes=first.passing_bytes,
        forward_passing_bytes=first.forward_passing_bytes,
    )


def _one(row: list[Part]) -> Iterator[Part]:
    if len(row) == 1:
        yield row[0]
    elif row:
        name = f"{row[0].name} to {row[-1].name}"
        yield msgspec.structs.replace(
            row[0],
            name=name,
            count=len(row),
            passing_bytes=max(part.passing_bytes for part in row),
            forward_passing_bytes=max(part.forward_passing_bytes for part in row),
        )


def _num_tokens(batch: Any) -> int:
    """Of one sample, where the batch has a table of whole numbers, a row per sample."""
    tables = (leaf for leaf in tensors(batch) if leaf.dim() == 2 and not leaf.is_floating_point())
    return next((leaf.shape[1] for leaf in tables), 1)


def _batch_bytes(found: Pass) -> int:
    return sum(map(_num_bytes, tensors(found.batch)))


def _num_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
