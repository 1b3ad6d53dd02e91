"""Checks of counts that a user hands to the data room; a bad one is refused in one line with the repair."""

from __future__ import annotations

from typing import Any

from hemostat.errors import FieldError


def check_count(field: str, value: Any, minimum: int = 1) -> None:
    """Refuse what is no whole number from `minimum` on; numpy's whole numbers are fine.

    Raises:
        FieldError: anything else.

    Examples:
        >>> check_count("window", 8)
        >>> check_count("window", 1.5)
        Traceback (most recent call last):
        hemostat.errors.FieldError: window=1.5: must be a whole number, 1 or more. Write it like window=1.
    """
    if not is_whole(value) or value < minimum:
        raise FieldError(
            field, value, f"must be a whole number, {minimum} or more", f"Write it like {field}={minimum}."
        )


def check_rank(rank: Any, num_ranks: Any) -> None:
    """Refuse a rank that is not one of so many.

    Raises:
        FieldError: with the bounds.
    """
    check_count("num_ranks", num_ranks)
    if not is_whole(rank) or not 0 <= rank < num_ranks:
        raise FieldError("rank", rank, f"must lie in 0..{num_ranks - 1}", "Ranks count from 0.")


def is_whole(value: Any) -> bool:
    """A whole number of Python or numpy, and no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and not hasattr(value, "__len__")
