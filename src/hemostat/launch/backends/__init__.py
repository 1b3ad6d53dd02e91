"""The places where a job can run, one file each."""

from __future__ import annotations

from hemostat.errors import UnknownNameError
from hemostat.launch.backend import Backend
from hemostat.launch.backends.local import LocalBackend

BACKENDS: dict[str, Backend] = {"local": LocalBackend()}


def backend(name: str) -> Backend:
    """Find a backend by its name.

    Raises:
        UnknownNameError: no backend of that name; the known ones are listed.

    Examples:
        >>> backend("local").name
        'local'
    """
    if name not in BACKENDS:
        raise UnknownNameError("backend", name, BACKENDS)
    return BACKENDS[name]
