"""`check_loss`: the start-up checks of the trainer, for the loss of a plain loop."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from hemostat.errors import HemostatWarning, TaskError
from hemostat.task import LossDoor, Task, to_device
from hemostat.train.parallel import dp
from hemostat.train.repeats import random_reads
from hemostat.train.self_check import Compute, self_check
from hemostat.train.session import Session


def check_loss(session: Session, compute: Compute) -> None:
    """Find a mean where a sum belongs, a count that stands still, and a loss that depends on how the batch is cut.

    Call it on all ranks before the first step. It changes no weight and restores the random state.

    Args:
        session: freshly opened.
        compute: (model, batch) -> (loss sum, count), the two that the loop gives to `session.backward`.

    Raises:
        TaskError: a mean was given as a sum, or the count does not grow with the batch.
        GuardStop: N ranks, or accumulated micro-batches, give another gradient than one process.

    Warns:
        HemostatWarning: the loss is no sum over samples, so it changes with the micro-batch; or two reads of a
            sample differ.

    Examples:
        >>> import torch
        >>> from hemostat.recipe import Base
        >>> from hemostat.train import TrainSettings
        >>> data = torch.utils.data.TensorDataset(torch.ones(8, 2))
        >>> def mean(model, batch):
        ...     return model(batch[0]).mean(), len(batch[0])
        >>> with Session(nn.Linear(2, 1), None, data, Base(), settings=TrainSettings(record=False)) as session:
        ...     check_loss(session, mean)
        Traceback (most recent call last):
        hemostat.errors.TaskError: mean returns a mean where a sum belongs: ...
    """
    model = dp.unwrap(session.model)
    first = next(iter(session.new_loader()))
    name = getattr(compute, "__name__", "compute")
    try:
        doubt = LossDoor(_Given()).check(
            _Computed(model, compute), to_device(first.data, session.world.device)
        )
    except TaskError as error:  # it names the stand-in below
        raise TaskError(str(error).replace("_Given.loss", name)) from error
    random_data = random_reads(session)
    if random_data:
        warnings.warn(random_data, HemostatWarning, stacklevel=2)
    if session.world.num_ranks > 1 or session.recipe.accumulation > 1:
        self_check(session, compute, random_data=bool(random_data))
    if doubt:
        warnings.warn(doubt.replace("_Given.loss", name), HemostatWarning, stacklevel=2)


class _Given(Task):
    """The model's output is the sum and the count already."""

    def split(self, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        return (batch,), {}, None

    def loss(self, output: Any, target: Any) -> Any:
        return output


class _Computed(nn.Module):
    """The user's function as a module, so that the check can set the model's mode."""

    def __init__(self, model: nn.Module, compute: Compute) -> None:
        super().__init__()
        self.inner = model
        self._compute = compute

    def forward(self, batch: Any) -> tuple[Tensor, Any]:
        return self._compute(self.inner, batch)
