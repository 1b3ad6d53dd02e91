"""`accelerate estimate-memory`: the column "Training using Adam", by the command's own functions.

The command wants a name of the Hub, so what it does after the download is called here: the model without its head
(`AutoModel`), then `calculate_maximum_sizes` and `estimate_training_usage`. It knows no batch,
length or second device.
"""

from __future__ import annotations

import torch
from accelerate import init_empty_weights
from accelerate.commands.estimate import estimate_training_usage
from accelerate.utils import calculate_maximum_sizes
from transformers import AutoModel

from plan_peers.case import Case, model_config


def predicted_bytes(case: Case) -> float | None:
    """The row "float16" of its table, which is the one of 16-bit training; one whole model on each device."""
    if not case.has_one_axis or case.shared_stage:
        return None
    with init_empty_weights():
        model = AutoModel.from_config(model_config(case.decoder), dtype=torch.float32)
    size_bytes, _ = calculate_maximum_sizes(model)
    return float(max(estimate_training_usage(size_bytes, "float16").values()))
