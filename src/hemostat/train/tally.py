"""Sums behind the figures of an evaluation: equal for any number of ranks, and enough for a standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from hemostat.train.process import World

Unit = Literal["sample", "batch", "none"]
Pairs = Mapping[str, tuple[float, float]]
_KEPT = 7  # numbers per figure and part: see Tally.add
_ALIKE = 1e-14  # what rounding leaves of a difference that is 0
_TOLERANCE = 1e-3  # bf16 rounds a row alone and in its batch differently


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of an evaluation.

    Attributes:
        value: sum over count; NaN where nothing was counted.
        standard_error: of `value`; None where it is not known.
        unit: what was taken as independent for it: "sample", "batch" (rows beside each other count as
            related), or "none".
    """

    value: float
    standard_error: float | None
    unit: Unit


class Tally:
    """Adds up blocks of rows, in parts whose borders do not depend on the number of ranks.

    Args:
        num_parts: parts of the data set, over all ranks.
    """

    def __init__(self, num_parts: int) -> None:
        self._num_parts = num_parts
        self._sums: dict[str, list[float]] = {}

    def add(self, part: int, pairs: Pairs, rows: Sequence[Pairs] | None) -> None:
        """Add a block.

        Args:
            part: the part it belongs to; blocks of a part are added in their order.
            pairs: name: (sum, count) of the block.
            rows: the same for each row; None where that is not known.
        """
        for name, (total, count) in pairs.items():
            sums = self._sums.setdefault(name, [0.0] * (_KEPT * self._num_parts))
            own = _own_rows(name, total, count, rows)
            added = (
                total,
                count,
                math.fsum(s * s for s, _ in own or ()),
                math.fsum(s * c for s, c in own or ()),
                math.fsum(c * c for _, c in own or ()),
                float(len(own or ())),
                float(own is None),
            )
            for place, value in enumerate(added, start=_KEPT * part):
                sums[place] += value

    def pooled(self, world: World) -> dict[str, Figure]:
        """The figures over all ranks, the same bits on all and for any number of them.

        Each part was added up by one rank; the parts are joined with exactly rounded sums.
        """
        # the last rank always holds a part, so it knows the names; a rank without parts adds zeros
        names: list[str] = json.loads(world.from_last_rank(json.dumps(list(self._sums))))
        width = _KEPT * self._num_parts
        flat = world.sum([value for name in names for value in self._sums.get(name, [0.0] * width)])
        return {name: _figure(flat[index * width : (index + 1) * width]) for index, name in enumerate(names)}


def _own_rows(
    name: str, total: float, count: float, rows: Sequence[Pairs] | None
) -> list[tuple[float, float]] | None:
    """The rows' pairs of one figure, if they add up to the block's."""
    if rows is None or any(name not in row for row in rows):
        return None
    own = [row[name] for row in rows]
    adds_up = math.isclose(math.fsum(c for _, c in own), count, rel_tol=1e-6)
    scale = max(math.fsum(abs(s) for s, _ in own), abs(total))
    return own if adds_up and abs(math.fsum(s for s, _ in own) - total) <= _TOLERANCE * scale else None


def _figure(kept: list[float]) -> Figure:
    totals, counts, squares, crossed, count_squares, num_rows, unknown = (
        kept[start::_KEPT] for start in range(_KEPT)
    )
    count = math.fsum(counts)
    if not count:
        return Figure(value=math.nan, standard_error=None, unit="none")
    value = math.fsum(totals) / count
    if not any(unknown):
        error = ratio_error(
            value,
            math.fsum(squares),
            math.fsum(crossed),
            math.fsum(count_squares),
            count,
            math.fsum(num_rows),
        )
        unit: Unit = "sample"
    else:
        error = ratio_error(
            value,
            math.fsum(total * total for total in totals),
            math.fsum(total * own for total, own in zip(totals, counts, strict=True)),
            math.fsum(own * own for own in counts),
            count,
            len(totals),
        )
        unit = "batch"
    return Figure(value=value, standard_error=error, unit="none" if error is None else unit)


def ratio_error(
    value: float, squares: float, crossed: float, count_squares: float, count: float, num_units: float
) -> float | None:
    """Standard error of a ratio R = sum s / sum c over independent units.

    sqrt(m / (m - 1) * sum of (s - R c)^2) / sum c, with the sum written out as ss - 2 R sc + R^2 cc. For
    counts of 1 this is the standard error of a mean, and for batches that of clustered questions.

    Args:
        value: R.
        squares: sum of s^2 over the units.
        crossed: sum of s c.
        count_squares: sum of c^2.
        count: sum of c.
        num_units: m.

    Returns:
        None for fewer than two units, where all are alike (20 of 20 right do not mean that none can be wrong), or
        where a sum is not finite.

    Source: Cochran 1977, Sampling Techniques, 3rd edition, section 2.11 (ratio, without the correction for a
        finite population); Miller 2024 (2411.00640) on clustered standard errors.

    Examples:
        >>> round(ratio_error(0.75, 3, 3, 4, 4, 4), 9) == round((0.25 * 0.75 / 3) ** 0.5, 9)
        True
    """
    if num_units < 2:
        return None
    residual = squares - 2 * value * crossed + value * value * count_squares
    if not residual > _ALIKE * squares or not math.isfinite(residual):
        return None
    return math.sqrt(residual * num_units / (num_units - 1)) / abs(count)


def part_borders(num_blocks: int, num_parts: int) -> list[tuple[int, int]]:
    """First and last + 1 block of each part.

    Examples:
        >>> part_borders(5, 2)
        [(0, 2), (2, 5)]
    """
    return list(pairwise(num_blocks * part // num_parts for part in range(num_parts + 1)))
