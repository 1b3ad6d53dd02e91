"""`PipedWindow`: the micro-batches of one window, collected until the pipeline runs them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from hemostat.data import MicroBatch
from hemostat.task import LossDoor
from hemostat.train.guards import tensor_leaves
from hemostat.train.parallel.rows import Inputs, filled
from hemostat.train.window_end import finish_window

if TYPE_CHECKING:
    from hemostat.train.session import Session


class _Part(NamedTuple):
    """One micro-batch."""

    inputs: Inputs
    target: Any
    micro: MicroBatch


class PipedWindow:
    """Takes the place of forward and `backward` where a model is in stages.

    Args:
        session: whose windows these are; its samples are few beside the activations that a pipeline saves.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._parts: list[_Part] = []

    def take(self, door: LossDoor, batch: Any) -> None:
        """Take one micro-batch; with the last one the window runs, and the update follows.

        Args:
            door: the task's loss.
            batch: what `Session.steps` has handed out.
        """
        session = self._session
        micro = session.guard.expects(session.batch)
        args, kwargs, target = door.split(batch)
        self._parts.append(_Part((args, kwargs), target, micro))
        session.batch, session.at_window_end = None, micro.last
        if micro.last:
            session.pulse.enter("backward")
            parts, self._parts = self._parts, []
            self._run(door, parts)
            finish_window(session, micro)

    def _run(self, door: LossDoor, parts: list[_Part]) -> None:
        """Forward and backward of a window; loss and count go to the session's.

        Micro-batches that are smaller than the largest one get fillers, which the loss does not see.
        """
        session = self._session
        model = session.parts.pipeline
        if model is None:
            raise RuntimeError("the model is not in stages")
        weight = session.mesh.num_data_ranks / parts[-1].micro.window_samples

        def loss_of(output: Any, number: int) -> torch.Tensor:
            part = parts[number]
            with session.precision.autocast():
                loss = door.of_output(output, part.target)
            if part.micro.num_samples:
                sums[number] = (session.parts.whole(loss.sum.detach()), loss.count)
            return session.precision.scaled(loss.sum * (weight if part.micro.num_samples else 0.0))

        sums: dict[int, tuple[torch.Tensor, Any]] = {}
        sizes = [len(next(tensor_leaves(part.inputs))) for part in parts]
        inputs = [filled(part.inputs, size, max(sizes)) for part, size in zip(parts, sizes, strict=True)]
        model.autocast = session.precision.autocast
        with session.parts.context():
            model.window(inputs, sizes, loss_of)
        for number in sorted(sums):
            session.window_loss.add(*sums[number])
