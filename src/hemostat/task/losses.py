"""LossDoor: both ways to state a loss, as one checked sum and count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from hemostat.blame import defined_at, own_line, said, user_line
from hemostat.errors import HemostatError, TaskError
from hemostat.task.answers import about_no_loss, about_no_pair, check_count, check_total, described, is_text
from hemostat.task.batch import num_samples
from hemostat.task.doubling import check_doubling
from hemostat.task.figures import Figures
from hemostat.task.rows import Pairs, row_pairs
from hemostat.task.task import Task

# the machine's failures, not the task's: they must reach the guards as they are
_NOT_THE_TASKS: Final = (
    HemostatError,
    torch.OutOfMemoryError,
    torch.AcceleratorError,
    *([torch.distributed.DistError] if torch.distributed.is_available() else []),
)
Count = float | Tensor


class Loss(NamedTuple):
    """What one micro-batch gives.

    Attributes:
        sum: 0-d floating tensor with gradient: the loss summed over the items.
        count: number of items: a number, or a 0-d tensor (left on its device).
        output: what the model returned; None where `step` kept it to itself.
        target: what `metrics` compares it with: the target, or for `step` the whole batch.
    """

    sum: Tensor
    count: Count  # type: ignore[assignment]  # hides tuple.count, which nobody calls here
    output: Any
    target: Any = None


class LossDoor:
    """Calls `loss` or `step` of a task, checks what comes back, and gives a sum and a count.

    Args:
        task: the task.

    Attributes:
        kind: "loss" or "step".

    Raises:
        TaskError: the task has neither door, or both.

    Examples:
        >>> class Mean(Task):
        ...     def loss(self, output, target):
        ...         return (output - target).square().sum(), target.numel()
        >>> batch = torch.ones(4, 2, requires_grad=True), torch.zeros(4, 2)
        >>> loss = LossDoor(Mean()).compute(nn.Identity(), batch)
        >>> loss.sum.item(), loss.count
        (8.0, 8)
    """

    def __init__(self, task: Task) -> None:
        self.kind = door_of(type(task))
        self.task = task
        self._name = f"{type(task).__name__}.{self.kind}"
        self._figures = Figures(f"{type(task).__name__}.metrics")

    def compute(self, model: nn.Module, batch: Any) -> Loss:
        """Loss of a batch.

        Args:
            model: the model, or what it is wrapped in.
            batch: a tree of tensors on the model's device.

        Raises:
            TaskError: the user's code raised, or returned what is no loss; the message has the repair.
        """
        target = output = inputs = None
        try:
            if self.kind == "step":
                result = self.task.step(model, batch)
            else:
                args, kwargs, target = self.task.split(batch)
                inputs = (*args, *kwargs.values())
                output = model(*args, **kwargs)
                inputs = None
                result = self.task.loss(output, target)
        except _NOT_THE_TASKS:
            raise
        except Exception as error:
            if inputs is not None and not own_line(error) and not _is_lone_sample(error):
                raise TaskError(_about_model(self.task, inputs, error)) from error
            raise TaskError(_about_failure(self._name, error)) from error
        if self.kind == "step":
            return self._from_step(result, batch)
        return self._from_pair(result, output, target)

    def split(self, batch: Any) -> tuple[tuple[Any, ...], Mapping[str, Any], Any]:
        """Positional inputs, keyword inputs and target, for a model that is called elsewhere.

        Raises:
            TaskError: the user's code raised.
        """
        try:
            return self.task.split(batch)
        except _NOT_THE_TASKS:
            raise
        except Exception as error:
            raise TaskError(_about_failure(f"{type(self.task).__name__}.split", error)) from error

    def of_output(self, output: Any, target: Any) -> Loss:
        """Loss of what the model has returned; only for a task with `loss`.

        Raises:
            TaskError: the user's code raised, or returned what is no loss.
        """
        try:
            result = self.task.loss(output, target)
        except _NOT_THE_TASKS:
            raise
        except Exception as error:
            raise TaskError(_about_failure(self._name, error)) from error
        return self._from_pair(result, output, target)

    def _from_pair(self, result: Any, output: Any, target: Any) -> Loss:
        if type(result) is not tuple or len(result) != 2:
            raise TaskError(about_no_pair(result, self._name))
        total, count = result
        check_total(total, self._name, "(loss.sum(), loss.numel())")
        check_count(count, self._name)
        return Loss(total, count, output, target)

    def _from_step(self, result: Any, batch: Any) -> Loss:
        mean, count, output = result, None, None
        if type(result) is tuple and len(result) == 2:
            mean, count = result
        elif isinstance(result, Mapping) and "loss" in result:
            mean, output = result["loss"], result
        elif hasattr(result, "loss"):
            mean, output = result.loss, result
        if mean is None:
            raise TaskError(about_no_loss(result, self._name))
        check_total(mean, self._name, "loss.mean()")
        if count is None:
            count = num_samples(batch)
        else:
            check_count(count, self._name)
        return Loss(_times(mean, count), count, output, batch)

    def check(self, model: nn.Module, batch: Any) -> str:
        """Whether sum and count grow with the batch; costs two forward passes, for the start of a run.

        Returns:
            "" where all is well, else one sentence.

        Raises:
            TaskError: a mean was returned as a sum, a sum as a mean, or a count that stands still.
        """
        return check_doubling(self.compute, model, batch, name=self._name, kind=self.kind)

    def metrics(self, output: Any, target: Any) -> dict[str, tuple[Any, Any]]:
        """The task's figures for one batch as {name: (sum, count)}; torchmetrics objects are updated instead.

        Args:
            output: `Loss.output`.
            target: `Loss.target`.

        Raises:
            TaskError: the user's code raised, or returned something else.
        """
        try:
            answer = self.task.metrics(output, target)
            return self._figures.pairs(answer, output, target)
        except _NOT_THE_TASKS:
            raise
        except Exception as error:
            raise TaskError(_about_failure(self._figures.name, error)) from error

    def rows(self, loss: Loss) -> list[Pairs] | None:
        """Loss and metrics of each row of a batch that was computed; None where rows cannot be told apart.

        With `step` they cannot: only the task knows how its mean came about.

        Args:
            loss: from `compute`.
        """
        if self.kind == "step":
            return None
        try:
            return list(row_pairs(self.task, loss.output, loss.target))
        except TaskError:
            return None

    @property
    def joins_ranks(self) -> bool:
        """The task's figures are torchmetrics objects, which join all ranks of the job by themselves."""
        return bool(self._figures.objects)

    def reset_metrics(self) -> None:
        """Forget what the torchmetrics objects have seen since the last `finish_metrics`."""
        self._figures.reset()

    def finish_metrics(self) -> dict[str, float]:
        """Values of the torchmetrics objects since the last call; every rank must call it at one point."""
        return self._figures.finish()


def door_of(cls: type[Task]) -> str:
    """Which door a task class has: "loss" or "step".

    Raises:
        TaskError: neither, or both.
    """
    doors = [name for name in ("loss", "step") if getattr(cls, name) is not getattr(Task, name)]
    if len(doors) == 1:
        return doors[0]
    if doors:
        raise TaskError(
            f"{cls.__name__} has both loss() and step(): which one counts is not clear. "
            f"Keep loss() where the model's output is enough for it."
        )
    raise TaskError(
        f"{cls.__name__} has no loss: write loss(self, output, target) that returns (sum, count), "
        f"or step(self, model, batch) that returns the mean loss."
    )


def _is_lone_sample(error: Exception) -> bool:
    return isinstance(error, ValueError) and "more than 1 value per channel" in str(error)


def _about_failure(name: str, error: Exception) -> str:
    if _is_lone_sample(error):
        return (
            f"{name}: one sample alone reached BatchNorm, which needs two. The last step of an epoch is smaller: "
            "change global_batch, accumulation or the number of processes so that no share of it is one sample, or "
            "use GroupNorm."
        )
    where = user_line(error)
    return f"{name} raised {said(error)}{f' at {where}' if where else ''}."


def _about_model(task: Task, inputs: tuple[Any, ...], error: Exception) -> str:
    """The message for a module of a library that cannot take what `split` gives it."""
    name = type(task).__name__
    text = any(map(is_text, inputs))
    fix = (
        "Make numbers of text in the data set, or in the collate_fn of a DataLoader that you return."
        if text
        else f"Look at what a batch holds, and at {name}.split."
    )
    given = ", ".join(map(described, inputs))
    return f"the model of {name}.model ({defined_at(type(task).model)}), given {given}, raised {said(error)}. {fix}"


def _times(mean: Tensor, count: Count) -> Tensor:
    """A mean as a sum. A mean over nothing is NaN; it counts as 0, with a gradient of 0."""
    if type(count) is int and count > 0:  # before isinstance, which is slow to say no to a Tensor
        return mean * count
    if isinstance(count, Tensor) or count == 0:
        nothing = torch.as_tensor(count, device=mean.device) == 0
        return torch.where(nothing, 0.0, mean * count)
    return mean * count
