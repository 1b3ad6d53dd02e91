"""How many processes a command may start on this machine."""

from __future__ import annotations

import os

from hemostat.errors import FieldError

MAX_RANKS_PER_CPU = 16


def check_processes(num_ranks: int) -> int:
    """The number itself, unless so many processes would only wait for each other.

    Raises:
        FieldError: none, or more than 16 for each CPU.
    """
    if num_ranks < 1:
        raise FieldError("num_ranks", num_ranks, "must be 1 or more", "Write --nproc 1 or more.")
    num_cpus = os.cpu_count() or 1
    if num_ranks > MAX_RANKS_PER_CPU * num_cpus:
        raise FieldError(
            "nproc",
            num_ranks,
            f"is more than {MAX_RANKS_PER_CPU} processes for each of {num_cpus} CPUs",
            "Use at most one process per accelerator, or per two CPUs.",
        )
    return num_ranks
