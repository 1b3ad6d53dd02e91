"""What the authors of a table foretold of their own rows: SimuMax 1.2 with measured kernels, vramcalc 0.1.2."""

from __future__ import annotations

from plan_peers.case import Case


def predicted_bytes(case: Case) -> float | None:
    """The column of the table; torchtitan foretold nothing."""
    return case.own_bytes
