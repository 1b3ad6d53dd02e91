"""DeepSpeed's `estimate_zero2_model_states_mem_needs` and `estimate_zero3_...`, as formulas.

DeepSpeed itself isn't installed for this. The figures are of one device without offload: 16-bit weights, Adam.

Source: deepspeed/runtime/zero/stage_1_and_2.py and stage3.py; the factor 18 since
    https://github.com/deepspeedai/DeepSpeed/pull/5099.
"""

from __future__ import annotations

from plan_peers.case import Case


def zero2_bytes(num_params: int, num_devices: int) -> float:
    """Whole 16-bit weights on each device; 18 bytes of gradients and states a parameter are shared out."""
    return 2 * num_params + 18 * num_params // num_devices


def zero3_bytes(num_params: int, num_largest: int, num_devices: int) -> float:
    """The largest layer twice over in 16 bit, and a share of 18 bytes a parameter."""
    return 4 * num_largest + 18 * num_params // num_devices


def predicted_by_zero2(case: Case) -> float | None:
    """Where gradients and states are shared out but weights are not, or nobody is there to share with."""
    if not case.has_one_axis or case.shared_stage not in (0, 2):
        return None
    return zero2_bytes(case.decoder.num_params, case.num_data_ranks)


def predicted_by_zero3(case: Case) -> float | None:
    """Where weights are shared out too; the largest module that owns parameters is the embedding."""
    if not case.has_one_axis or case.shared_stage not in (0, 3):
        return None
    num_largest = max(case.decoder.vocab, case.decoder.ffn) * case.decoder.hidden
    return zero3_bytes(case.decoder.num_params, num_largest, case.num_data_ranks)
