"""`Watch`: what a session tells whoever looks on; by itself it changes and notes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from hemostat.data import MicroBatch
    from hemostat.recipe import Base, Devices
    from hemostat.train.session import Session
    from hemostat.train.settings import TrainSettings

Given = tuple[nn.Module, Any, "Base", "Devices | None", "TrainSettings"]


class Watch:
    """Looks on at every session of this process; `hemostat verify` puts its own in the place of this one."""

    def shrink(self, given: Given) -> Given:
        """What a session is built of: model, training data, base, devices, settings."""
        return given

    def few(self, data: Any) -> Any:
        """What a model is judged on."""
        return data

    def built(self, session: Session) -> None:
        """A session was built and is not open yet."""

    def after(self, session: Session, micro: MicroBatch, loss_sum: Tensor, count: Any) -> None:
        """A micro-batch went backward; after the last one of a window its step was made."""
