"""What a loop over a session can do wrong, from its arguments on, each with the line that mends it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from hemostat.data import MicroBatch, Source
from hemostat.errors import TaskError
from hemostat.recipe import Base
from hemostat.train.guards import leaves_digest
from hemostat.train.process import World, seed_everything
from hemostat.train.rng import generators_kept


def check_given(model: Any, optimizer: Any, base: Any) -> None:
    """Refuse what a session cannot be built of.

    Raises:
        TaskError: no module, no optimizer over its parameters, or no `Base`.
    """
    if not isinstance(model, torch.nn.Module):
        raise TaskError(f"model is {_named(model)}. Give a torch.nn.Module object.")
    if isinstance(model, DistributedDataParallel | torch.nn.DataParallel):
        raise TaskError(
            f"model is wrapped in {type(model).__name__} already. Give the module inside, model.module: the session "
            "wraps it, and accumulates without a reduction for each micro-batch."
        )
    if not any(param.requires_grad for param in model.parameters()):
        raise TaskError("the model has no parameter that requires a gradient. Nothing can be trained.")
    if not isinstance(base, Base):
        raise TaskError(f"base is {_named(base)}. Give hemostat.Base(lr=..., tuned_batch=..., epochs=...).")
    if optimizer is None:
        return
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TaskError(
            f"optimizer is {_named(optimizer)}. Give one that was built over model.parameters(), or None and "
            f"Base(optimizer=...)."
        )
    mine = {id(param) for param in model.parameters()}
    if not any(id(param) in mine for group in optimizer.param_groups for param in group["params"]):
        raise TaskError(
            "optimizer holds no parameter of the model: nothing would be trained. Build it over model.parameters()."
        )


def check_same_data(world: World, source: Source) -> None:
    """Refuse data with which ranks would draw unlike windows; on all ranks alike.

    Of a stream the first item is compared too, with equal random states, for it may have split itself by rank.

    Raises:
        TaskError: the lengths differ, or the first items of a stream.
    """
    num_samples = source.num_samples
    differs = num_samples != int(world.from_rank_zero(str(num_samples)))
    if world.sum([float(differs)])[0]:
        raise TaskError(
            f"{source.role} has {num_samples} samples on rank {world.rank} and another number elsewhere. "
            "Every rank must build the same data set; hemostat shares it out."
        )
    if source.stream is None or world.num_ranks == 1:
        return
    with generators_kept(world.device):
        seed_everything(0)
        mine = leaves_digest(source.reader()(torch.tensor([0])))
    if world.sum([float(mine != world.from_rank_zero(mine))])[0]:
        raise TaskError(
            f"{source.role} is a stream whose first item differs from rank to rank. Leave out what splits it by rank, "
            "and seed what shuffles it: hemostat gives each rank its share."
        )


def _named(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _check_count(count: Any) -> None:
    """Of a tensor only the shape is looked at, because its value may lie on a device."""
    if isinstance(count, torch.Tensor):
        if count.dim():
            raise TaskError(
                f"session.backward was given a count of shape {tuple(count.shape)}. Give its sum, count.sum()."
            )
    elif isinstance(count, bool) or not isinstance(count, (int, float)) or not 0 <= count < math.inf:
        raise TaskError(
            f"count={count!r}: must be a number from 0 on, or a 0-d tensor. Give how many terms the sum has."
        )


class LoopGuard:
    """Follows one loop: opened once, iterated once, one forward and one backward a batch.

    Args:
        num_ranks: with several, the forward must go through the wrapped model.

    Attributes:
        open: inside of the `with` block.
    """

    def __init__(self, num_ranks: int) -> None:
        self.open = False
        self._num_ranks = num_ranks
        self._iterated = self._forwarded = False
        self._held: torch.nn.Parameter | None = None

    def watch(self, wrapped: torch.nn.Module) -> None:
        """Note the forward passes of the model that the loop must call."""
        wrapped.register_forward_pre_hook(self._note_forward)

    def _note_forward(self, *_: object) -> None:
        self._forwarded = True

    def begin(self) -> None:
        """The loop asks for its batches.

        Raises:
            TaskError: outside of the `with` block, or for a second time.
        """
        if not self.open:
            raise TaskError(
                "session.steps() outside of a run. Write `with Session(...) as session:` around the loop."
            )
        if self._iterated:
            raise TaskError(
                "session.steps() was asked twice, and all epochs are in it. Leave out the loop over epochs."
            )
        self._iterated = True

    def hand_out(self) -> None:
        """A batch goes to the loop."""
        self._forwarded = False

    def came_back(self, awaits_backward: bool) -> None:
        """The loop asks for the next batch.

        Raises:
            TaskError: the one before is still awaiting its `backward`.
        """
        if awaits_backward:
            raise TaskError(
                "a batch came back without session.backward(loss_sum, count). Call it once a batch."
            )

    def before_backward(self, batch: MicroBatch | None, loss_sum: Any, count: Any) -> MicroBatch:
        """Check what `backward` was called with; the batch that it is for comes back.

        Raises:
            TaskError: no batch, no sum, no count, another model than the session's, or gradients that were cleared.
        """
        batch = self.expects(batch)
        if not isinstance(loss_sum, torch.Tensor) or loss_sum.dim():
            is_tensor = isinstance(loss_sum, torch.Tensor)
            what = f"of shape {tuple(loss_sum.shape)}" if is_tensor else f"of type {type(loss_sum).__name__}"
            raise TaskError(
                f"session.backward was given a loss {what}. Give a 0-d tensor: the sum, loss.sum()."
            )
        if not loss_sum.requires_grad:
            raise TaskError(
                "session.backward was given a loss without a gradient. Leave out detach() and no_grad()."
            )
        if type(count) is not int or count < 0:
            _check_count(count)
        if self._num_ranks > 1 and not self._forwarded:
            raise TaskError(
                "the loss was not computed by session.model, so the ranks would drift apart. Call that one."
            )
        if self._held is not None and self._held.grad is None:
            raise TaskError(
                "the gradients vanished between two micro-batches. Leave out optimizer.zero_grad()."
            )
        return batch

    @staticmethod
    def refuse_stages(num_stages: int) -> None:
        """A loop that calls the model itself would train one stage as if it were the model.

        Raises:
            TaskError: there are several.
        """
        if num_stages > 1:
            raise TaskError(
                f"session.backward has no place under pp={num_stages}: a loop of one's own cannot call a model "
                "in stages. Write a task and use hemostat train, or take fsdp or tp."
            )

    def expects(self, batch: MicroBatch | None) -> MicroBatch:
        """The batch that was handed out.

        Raises:
            TaskError: there is none.
        """
        if batch is None:
            raise TaskError(
                "session.backward was called without a batch from session.steps(). "
                "Call it once a batch, with the sum of all its losses."
            )
        return batch

    def after_backward(self, params: list[torch.nn.Parameter], last: bool) -> None:
        """Remember one gradient that must be there at the next micro-batch of this window."""
        self._held = None if last else next((param for param in params if param.grad is not None), None)
