"""`task_profile`: a task's model as a plan sees it, traced without computing; nothing is trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hemostat.data import Source
from hemostat.errors import TaskError
from hemostat.plan import Profile
from hemostat.task import LoadedTask, LossDoor, build_model, call, profile_of
from hemostat.train.parallel.parts import find_parts


def task_profile(loaded: LoadedTask, precision: str = "fp32") -> Profile:
    """Trace the model of a task on one sample of its training data.

    The model is built on the meta device, so that one which fits nowhere can be planned; where its constructor needs
    values it is built on the CPU.

    Args:
        loaded: the task.
        precision: of the products: "fp32", "bf16" or "fp16".

    Raises:
        TaskError: the model or the loss cannot run without values; the message names the operation and the line.
    """
    task = loaded.task
    source = Source(call(task, "train_data"), "train_data")
    model = _built(loaded)
    model.train()
    blocks: Any = call(task, "blocks", model)
    plan: Any = call(task, "tensor_plan", model)
    parts = find_parts(model, blocks, plan)
    return profile_of(
        model,
        source.reader()(torch.tensor([0])),
        LossDoor(task).compute,
        [(name, model.get_submodule(name)) for name in parts.blocks] or None,
        precision=precision,
        tensor_plan=parts.tensor_plan,
    )


def _built(loaded: LoadedTask) -> nn.Module:
    try:
        with torch.device("meta"):
            return build_model(loaded.task)
    except TaskError:  # it looks at values, or loads some; what is wrong without that too is raised again
        return build_model(loaded.task)
