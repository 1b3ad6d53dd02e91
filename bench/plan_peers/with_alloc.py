"""`alloc.ghost` (PyPI alloc), called as a library on the model without values; its ranking runs on a server."""

from __future__ import annotations

import alloc

from plan_peers.case import GIB, Case, empty_model


def predicted_bytes(case: Case) -> float | None:
    """Weights, gradients, states and activations of one whole model; it has no axis and no frozen weights."""
    if not case.has_one_axis or case.shared_stage:
        return None
    report = alloc.ghost(empty_model(case), batch_size=case.micro_batch, seq_length=case.decoder.num_tokens)
    if report.estimation_failed:
        raise RuntimeError(f"alloc gave up on {case.row.name}")
    return report.total_gb * GIB  # its "GB" are GiB
