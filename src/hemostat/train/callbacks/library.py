"""Loads the library of a callback, or says which of its versions the callback works with."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, NamedTuple

from hemostat.errors import FieldError, MissingExtraError


class Library(NamedTuple):
    """What a callback needs.

    Attributes:
        name: as it is imported.
        extra: of hemostat, which installs it.
        least: first version that works, as (major, minor).
        below_major: first major version that nobody has tried.
    """

    name: str
    extra: str
    least: tuple[int, int]
    below_major: int


HUGGING_FACE = Library("transformers", "hf", (4, 48), 6)
LIGHTNING = Library("lightning", "lightning", (2, 5), 3)
ACCELERATE = Library("accelerate", "accelerate", (1, 0), 2)


def load(library: Library, module: str = "") -> Any:
    """Import a module of a library.

    Args:
        library: which one.
        module: below it, such as "pytorch"; the library itself by default.

    Raises:
        MissingExtraError: it is not installed.
        FieldError: an unsupported version of it is.
    """
    try:
        found = import_module(library.name)
    except ModuleNotFoundError as error:
        if error.name != library.name:
            raise
        raise MissingExtraError(library.name, library.extra, "the callback") from None
    check_version(library, str(found.__version__))
    return import_module(f"{library.name}.{module}") if module else found


def check_version(library: Library, version: str) -> None:
    """Refuse what the callback does not work with.

    Raises:
        FieldError: it is too old, or newer than what was tried.

    Examples:
        >>> check_version(HUGGING_FACE, "5.24.0")
        >>> check_version(HUGGING_FACE, "4.20.1")
        Traceback (most recent call last):
        hemostat.errors.FieldError: transformers='4.20.1': the callback works with >=4.48,<6. Install one of \
these: pip install 'hemostat[hf]'
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if (*numbers, 0, 0)[:2] < library.least or (numbers or [0])[0] >= library.below_major:
        least = ".".join(map(str, library.least))
        raise FieldError(
            library.name,
            version,
            f"the callback works with >={least},<{library.below_major}",
            f"Install one of these: pip install 'hemostat[{library.extra}]'",
        )
