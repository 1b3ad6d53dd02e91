"""Checks of one number of the settings; a bad one is refused in one line that carries the repair."""

from __future__ import annotations

import math
from typing import Any

from hemostat.errors import FieldError

_FIX = "Write the value that works on one device."


def check_int(name: str, value: Any, minimum: int) -> None:
    """Raise unless value is None or a whole number of at least `minimum`.

    Raises:
        FieldError: anything else.
    """
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise FieldError(name, value, f"must be a whole number, {minimum} or more", "Write a count.")


def check_number(
    name: str, value: Any, above: float | None = None, below: float | None = None, fix: str = _FIX
) -> None:
    """Raise unless value is None or a finite number in the range; without `above`, 0 is the least.

    Raises:
        FieldError: anything else, NaN and infinity included.
    """
    if value is None:
        return
    rule = "must be a number above 0" if above is not None else "must be a number, 0 or more"
    rule += "" if below is None else f", below {below:g}"
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or (above is not None and value <= above) or (below and value >= below):
        raise FieldError(name, value, rule, fix)
