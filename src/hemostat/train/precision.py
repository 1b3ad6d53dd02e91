"""Mixed precision as one object: the autocast context and, for fp16, the loss scaler."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from hemostat.errors import UnknownNameError
from hemostat.train.lag import Number

_DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """How numbers are rounded in forward and backward.

    The scaler is unscaled once per update, after the last micro-batch, so that clipping sees true gradients.

    Args:
        name: "fp32", "bf16" or "fp16".
        device: where the model lives.

    Attributes:
        dtype: that forward and backward round to; None for none.

    Raises:
        UnknownNameError: another name.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name not in _DTYPES:
            raise UnknownNameError("train.precision", name, _DTYPES)
        self.name = name
        self._device_type = device.type
        self.dtype = _DTYPES[name]
        self.scaler = torch.amp.GradScaler(device.type) if name == "fp16" else None
        if self.scaler is not None:
            # else it has no scale where no loss is computed, as in a pipeline's first stage
            self.scaler.scale(torch.zeros((), device=device))

    def autocast(self) -> AbstractContextManager[None]:
        """The context of a forward pass."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self._device_type, dtype=self.dtype)

    def backward(self, loss: torch.Tensor) -> None:
        """Accumulate gradients of a 0-d loss, scaled where fp16 needs it."""
        self.scaled(loss).backward()  # type: ignore[no-untyped-call]

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """A loss as its backward pass begins with it: multiplied where fp16 needs it."""
        if self.scaler is None:
            return loss
        product: torch.Tensor = self.scaler.scale(loss)
        return product

    @property
    def loss_scale(self) -> float:
        """What the loss is multiplied with before backward; 1 but for fp16."""
        return 1.0 if self.scaler is None else float(self.scaler.get_scale())

    def scale_as(self, number: Number) -> Any:
        """`loss_scale` as a kind of number; where that lies on the device, nobody waits for it."""
        scale = None if self.scaler is None else self.scaler._get_scale_async()
        return number(1.0 if scale is None else scale)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn accumulated gradients into true ones; call once per update."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer, apply: bool, finite: bool) -> None:
        """Apply the update unless told to skip it; the fp16 scale adapts to what all ranks saw either way.

        Args:
            optimizer: the one that was unscaled.
            apply: make the step.
            finite: the gradients are, on all ranks; of a sharded model this rank sees a part only.
        """
        if self.scaler is None:
            if apply:
                optimizer.step()
            return
        if not finite:
            for found in self.scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
                found.fill_(1.0)
        if apply:
            self.scaler.step(optimizer)
        self.scaler.update()

    def step_unless(
        self, skip: torch.Tensor, overflow: torch.Tensor, optimizer: torch.optim.Optimizer
    ) -> None:
        """`step` for an optimizer that decides on the device whether it changes anything.

        Args:
            skip: 0-d bool.
            overflow: 0-d bool; not finite on some rank, which is what the fp16 scale adapts to.
            optimizer: see `Updater.skips_on_device`.

        Source: torch.amp.GradScaler.step, which leaves the decision to the same attribute.
        """
        vars(optimizer)["found_inf"] = skip.float()
        try:
            optimizer.step()
        finally:
            del vars(optimizer)["found_inf"]
        if self.scaler is not None:
            for found in self.scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
                found.logical_or_(overflow)
            self.scaler.update()
