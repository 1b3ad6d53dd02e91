"""A curve in braille dots: two columns and four rows of dots per character, no dependency."""

from __future__ import annotations

import math
from collections.abc import Sequence

# bit of the dot at (column, row) inside one character, Unicode block U+2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def curve(values: Sequence[float], width: int = 60, height: int = 3) -> list[str]:
    """Draw values from left to right.

    Each dot column shows the median of its share of the values, so that spikes do not hide the trend;
    values that are not finite leave a gap.

    Args:
        values: in order of time.
        width: characters.
        height: lines.

    Returns:
        `height` lines; empty when nothing is finite.

    Examples:
        >>> curve([4, 3, 2, 1, 0, 0, 0, 0], width=4, height=1)
        ['⠑⠤⣀⣀']
    """
    columns = _columns(values, 2 * width)
    finite = [value for value in columns if math.isfinite(value)]
    if not finite:
        return []
    low, high = min(finite), max(finite)
    span = high / 2 - low / 2  # halves, because the difference of huge values is infinite
    rows = 4 * height
    cells = [[0] * width for _ in range(height)]
    for x, value in enumerate(columns):
        if math.isfinite(value):
            y = round((high / 2 - value / 2) / span * (rows - 1)) if span > 0 else rows - 1
            cells[y // 4][x // 2] |= _BITS[x % 2][y % 4]
    return ["".join(chr(0x2800 + bits) for bits in line) for line in cells]


def _columns(values: Sequence[float], num_columns: int) -> list[float]:
    count = len(values)
    out = []
    for column in range(num_columns if count else 0):
        start = column * count // num_columns
        stop = max(start + 1, (column + 1) * count // num_columns)
        finite = sorted(value for value in values[start:stop] if math.isfinite(value))
        out.append(finite[len(finite) // 2] if finite else math.nan)
    return out
