"""`split_model`: a task's model with what the task says of where it can be split."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from hemostat.data import Source
from hemostat.errors import FieldError, TaskError
from hemostat.plan import Layout
from hemostat.task import LossDoor, Task, call, evaluation_mode, to_device
from hemostat.train.parallel.arrange import Splittable
from hemostat.train.parallel.sharded import whole
from hemostat.train.rng import generators_kept
from hemostat.train.settings import TrainSettings


def refuse_searches(settings: TrainSettings) -> None:
    """What looks for a rate or a micro-batch before training does so on whole models.

    Raises:
        FieldError: the layout divides it.
    """
    for name in ("lr_range", "find_micro_batch"):
        if getattr(settings, name) and not settings.layout.is_dp:
            raise FieldError(
                f"train.{name}",
                True,
                f"works on a whole model, and layout {settings.layout} divides it",
                "Look for it with dp and a smaller model, and give lr or micro_batch.",
            )


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
    sample = train_data.reader()(torch.tensor([0]))
    given = Splittable(model, blocks, plan, probe=partial(_probe, door, sample))
    if layout.pp == 1:
        return given
    args, kwargs, target = door.split(sample)
    return given._replace(inputs=(args, kwargs), loss=lambda output: door.of_output(output, target))


def _probe(door: LossDoor, sample: Any, model: torch.nn.Module) -> float | None:
    """Loss of one sample without dropout; None where the model's output is on another rank."""
    device = next(model.parameters()).device
    with evaluation_mode(model), torch.no_grad(), generators_kept(device):
        batch = to_device(sample, device)
        if door.kind == "step":
            return float(whole(door.compute(model, batch).sum))
        args, kwargs, target = door.split(batch)
        output = model(*args, **kwargs)
        return None if output is None else float(whole(door.of_output(output, target).sum))
