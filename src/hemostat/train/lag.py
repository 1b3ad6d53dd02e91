"""How far the host may stay behind: figures of a step that it reads one step late, and when that is possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import Tensor

from hemostat.config import Resolved
from hemostat.errors import FieldError
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.settings import TrainSettings

if TYPE_CHECKING:
    from hemostat.train.session import Session

Number = Callable[[float | Tensor], Any]


def on(device: torch.device) -> Number:
    """A number as a float64 scalar on a device, made without waiting for it.

    Examples:
        >>> on(torch.device("cpu"))(torch.tensor(2.0)) + on(torch.device("cpu"))(1)
        tensor(3., dtype=torch.float64)
    """

    def number(value: float | Tensor) -> Tensor:
        if isinstance(value, Tensor) and value.device == device:
            return value.detach().to(torch.float64)
        return torch.full((), float(value), dtype=torch.float64, device=device)

    return number


class OnItsWay:
    """Figures on their way from a device to the host.

    Args:
        figures: 0-d float64 tensors of one device.

    Examples:
        >>> OnItsWay([torch.tensor(1.0), torch.tensor(2.0)]).read()
        [1.0, 2.0]
    """

    def __init__(self, figures: Sequence[Tensor]) -> None:
        there = torch.stack(list(figures))
        self._here, self._arrived = there, None
        if there.device.type != "cpu":
            # only into pinned memory does a copy go on while the host does
            self._here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
            self._here.copy_(there, non_blocking=True)
            self._arrived = torch.get_device_module(there.device).Event()
            self._arrived.record()

    def read(self) -> list[float]:
        """The figures; waits until the device has come that far, and no further."""
        if self._arrived is not None:
            self._arrived.synchronize()
        figures: list[float] = self._here.tolist()
        return figures


def wants_lag(settings: TrainSettings, mesh: Mesh) -> bool:
    """The run gains by reading late, or was told to."""
    if settings.lag_steps is not None:
        return settings.lag_steps > 0
    return mesh.device.type != "cpu" and mesh.layout.is_dp


def resolve_lag(settings: TrainSettings, mesh: Mesh, skips_on_device: bool) -> Resolved:
    """How many steps late the figures of a step are read, with the reason.

    Args:
        settings: what was asked for.
        mesh: the ranks and their device.
        skips_on_device: see `Updater`.

    Raises:
        FieldError: 1 was asked for and is not possible.
    """
    if not wants_lag(settings, mesh):
        why = (
            "a CPU is not ahead of its host" if mesh.device.type == "cpu" else "only layout dp can read later"
        )
        return _row(
            0, "It was asked for." if settings.lag_steps == 0 else f"Each step is read at once: {why}."
        )
    obstacle, repair = "", ""
    if not mesh.layout.is_dp:
        obstacle, repair = f"layout {mesh.layout} reads each step at once", "Leave it out, or use dp alone."
    elif not skips_on_device:
        obstacle = "the optimizer cannot skip a step on the device, so the host has to decide"
        repair = "Give torch's SGD, Adam, AdamW or Adagrad with fused=True, or leave it out."
    if obstacle and settings.lag_steps:
        raise FieldError("train.lag_steps", settings.lag_steps, obstacle, repair)
    if obstacle:
        return _row(0, f"Each step is read at once: {obstacle}. {repair}")
    return _row(1, "The host does not wait for the device: a step that is not finite is skipped there.")


def recorded_lag(session: Session) -> int:
    """`resolve_lag` of a session, whose recipe gets the row."""
    row = resolve_lag(session.settings, session.mesh, session.updater.skips_on_device)
    session.recipe = msgspec.structs.replace(session.recipe, values=(*session.recipe.values, row))
    return int(row.value)


def _row(lag_steps: int, why: str) -> Resolved:
    return Resolved(field="train.lag_steps", value=lag_steps, why=why, confidence="high")
