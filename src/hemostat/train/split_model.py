"""`split_model`: a task's model with what the task says of where it can be split."""

from __future__ import annotations

from typing import Any

import torch

from hemostat.data import Source
from hemostat.errors import TaskError
from hemostat.plan import Layout
from hemostat.task import LossDoor, Task, call
from hemostat.train.parallel.arrange import Splittable


def split_model(task: Task, model: torch.nn.Module, train_data: Source, layout: Layout) -> Splittable:
    """Ask a task what its layout needs to know.

    Args:
        task: the task.
        model: what it has built.
        train_data: its first sample shows which inputs the model is given.
        layout: what was asked for.

    Raises:
        TaskError: the loss is inside of `step`, and pipeline stages cannot reach it there.
    """
    door = LossDoor(task)
    if layout.pp > 1 and door.kind == "step":
        raise TaskError(
            f"{type(task).__name__} has step(), which calls the whole model, and pp={layout.pp} cuts it into stages. "
            "Write loss(self, output, target) in its place, or use dp, fsdp and tp."
        )
    if layout.is_dp and layout.recompute == "none" and not layout.compile:
        return Splittable(model)
    blocks: Any = call(task, "blocks", model)
    plan: Any = call(task, "tensor_plan", model)
    if layout.pp == 1:
        return Splittable(model, blocks, plan)
    args, kwargs, target = door.split(train_data.reader()(torch.tensor([0])))
    return Splittable(model, blocks, plan, (args, kwargs), lambda output: door.of_output(output, target))
