"""hemostat's own forecast, of the kind of memory that the table publishes."""

from __future__ import annotations

from plan_peers.case import Case


def predicted_bytes(case: Case) -> float | None:
    """As `bench/plan_memory.py` compares it."""
    return case.row.predicted_bytes
