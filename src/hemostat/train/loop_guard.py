"""`LoopGuard`: what a loop over a session can do wrong, each with the line that mends it."""

from __future__ import annotations

from typing import Any

import torch

from hemostat.errors import TaskError


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

    def before_backward(self, loss_sum: Any) -> None:
        """Check what `backward` was called with.

        Raises:
            TaskError: no sum, another model than the session's, or gradients that were cleared.
        """
        if not isinstance(loss_sum, torch.Tensor) or loss_sum.dim():
            is_tensor = isinstance(loss_sum, torch.Tensor)
            what = f"of shape {tuple(loss_sum.shape)}" if is_tensor else f"of type {type(loss_sum).__name__}"
            raise TaskError(
                f"session.backward was given a loss {what}. Give a 0-d tensor: the sum, loss.sum()."
            )
        if self._num_ranks > 1 and not self._forwarded:
            raise TaskError(
                "the loss was not computed by session.model, so the ranks would drift apart. Call that one."
            )
        if self._held is not None and self._held.grad is None:
            raise TaskError(
                "the gradients vanished between two micro-batches. Leave out optimizer.zero_grad()."
            )

    def after_backward(self, params: list[torch.nn.Parameter], last: bool) -> None:
        """Remember one gradient that must be there at the next micro-batch of this window."""
        self._held = None if last else next((param for param in params if param.grad is not None), None)
