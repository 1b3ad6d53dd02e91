"""One optimizer update: every factor, the clip and the finite check meet here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.hooks import RemovableHandle

from hemostat.errors import TaskError
from hemostat.train.optimizer_state import plain_groups
from hemostat.train.own_optimizer import written_lr
from hemostat.train.parallel.sharded import local
from hemostat.train.precision import Precision

Norm = Callable[[Sequence[torch.Tensor]], float | torch.Tensor]


class Step(NamedTuple):
    """One optimizer step, equal on all ranks.

    Attributes:
        number: 1-based number of the window, skipped ones included.
        samples: samples consumed by all ranks so far.
        loss: mean over all samples (or tokens) of the window.
        lr: learning rate that was applied.
        grad_norm: before clipping.
        applied: False for a counted skip.
    """

    number: int
    samples: int
    loss: float
    lr: float
    grad_norm: float
    applied: bool


class Update(NamedTuple):
    """What one update did; 0-d tensors where the host has not read it.

    Attributes:
        applied: False when loss or gradients were not finite and the update was skipped.
        grad_norm: 2-norm of the gradient of the mean loss, before clipping.
    """

    applied: bool | torch.Tensor
    grad_norm: float | torch.Tensor


class Updater:
    """Turns accumulated gradients into one step of the optimizer.

    Args:
        optimizer: the user's or the one built from the recipe; the ratio of each group's rate to `base_lr` is kept.
        precision: unscales once.
        clip_norm: 2-norm above which the whole gradient is scaled down; None leaves it.
        base_lr: the rate that the groups were written for.
        norm: 2-norm of the gradients, over all ranks that share the parameters; None: they are all here.

    Attributes:
        ratios: of each group's rate to the recipe's.
        rates: what the groups were set to for the latest applied step; empty before it.
        outside: (group, rate) that something else has set between two steps; the first one stays.
        skips_on_device: the optimizer is one that can leave everything as it is because a tensor says so.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        clip_norm: float | None,
        base_lr: float,
        norm: Norm | None = None,
    ) -> None:
        self.optimizer = optimizer
        self._precision = precision
        self._clip_norm = clip_norm
        self._norm = norm or grad_norm
        self.ratios = [written_lr(group) / base_lr for group in optimizer.param_groups]
        self.written = plain_groups(optimizer)
        self.rates: list[float] = []
        self.outside: tuple[int, float] | None = None
        self.skips_on_device = _skips_on_device(optimizer)
        self._begun: frozenset[int] = frozenset()
        self._stepping = False
        self._watch: RemovableHandle | None = None
        self.params = [param for group in optimizer.param_groups for param in group["params"]]

    def apply(self, factor: float, lr: float, *, finite: bool = True) -> Update:
        """Scale, check, clip, step and clear.

        Args:
            factor: what all gradients are multiplied by (samples / count of the window); 0 skips the update.
            lr: learning rate of this step.
            finite: the loss over all ranks is. A saturated value can have a finite gradient all the same, which leads
                nowhere; the update is skipped.
        """
        self._precision.unscale(self.optimizer)
        grads = [param.grad for param in self.params if param.grad is not None]
        norm = factor * float(self._norm(self.params))
        finite = finite and math.isfinite(norm)
        applied = finite and factor != 0.0
        if applied:
            clip = self._clip_norm
            multiplier = factor * (clip / norm if clip is not None and norm > clip else 1.0)
            if multiplier != 1.0:
                scale_(grads, multiplier)
            self._set_rates(lr)
            if self.skips_on_device:
                self._begun |= self._moving()
        self._step(partial(self._precision.step, self.optimizer, applied, finite))
        return Update(applied, norm)

    def apply_on_device(self, factor: torch.Tensor, lr: float, finite: torch.Tensor) -> Update:
        """`apply` without a value that the host has to wait for: the same step, or none.

        Args:
            factor: as in `apply`, 0-d float64.
            lr: learning rate of this step.
            finite: as in `apply`, 0-d bool.
        """
        self._precision.unscale(self.optimizer)
        grads = [param.grad for param in self.params if param.grad is not None]
        norm = factor * self._norm(self.params)
        finite = finite & torch.isfinite(norm)
        applied = finite & (factor != 0.0)
        multiplier = factor
        if self._clip_norm is not None:
            multiplier = factor * (torch.full_like(norm, self._clip_norm) / norm).clamp(max=1.0)
        scale_(grads, multiplier)
        self._set_rates(lr)
        self._step(
            partial(self._precision.step_unless, applied.logical_not(), finite.logical_not(), self.optimizer)
        )
        return Update(applied, norm)

    @property
    def has_begun(self) -> bool:
        """Each parameter with a gradient was part of a step before.

        What an optimizer sets up at a parameter's first step is garbage if that is skipped on the device: torch's
        fused SGD then never fills the momentum that it has made room for.
        """
        return self._moving() <= self._begun

    def _moving(self) -> frozenset[int]:
        return frozenset(number for number, param in enumerate(self.params) if param.grad is not None)

    def _step(self, step: Callable[[], None]) -> None:
        self._stepping = True
        step()
        self._stepping = False
        self.optimizer.zero_grad(set_to_none=True)

    def _set_rates(self, lr: float) -> None:
        groups = self.optimizer.param_groups
        for index, (group, ours) in enumerate(zip(groups, self.rates, strict=False)):
            if group["lr"] != ours and self.outside is None:
                self.outside = (index, float(group["lr"]))
        self.rates = [lr * ratio for ratio in self.ratios]
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate

    def refuse_other_steps(self) -> None:
        """From now on a step that is not made here is an error; one in the middle of a window would go unseen.

        Raises:
            TaskError: raised by the optimizer's `step`, not here.
        """
        self._watch = self.optimizer.register_step_pre_hook(self._refuse)

    def allow_other_steps(self) -> None:
        """The optimizer is the user's again."""
        if self._watch is not None:
            self._watch.remove()
            self._watch = None

    def _refuse(self, *_: object) -> None:
        if not self._stepping:
            raise TaskError("optimizer.step() was called beside the session's own. Leave it out.")


def _skips_on_device(optimizer: torch.optim.Optimizer) -> bool:
    kinds = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
    return type(optimizer) in kinds and all(group.get("fused") for group in optimizer.param_groups)


def grad_norm(params: Sequence[torch.Tensor]) -> float | torch.Tensor:
    """2-norm of the gradients of parameters that are all here, on their device."""
    return _norm_there([param.grad for param in params if param.grad is not None])


def scale_(grads: Sequence[torch.Tensor], factor: float | torch.Tensor) -> None:
    """Multiply gradients in place, each part where it lies; of a sharded one that is the shard.

    Args:
        grads: all of one device.
        factor: where it is a tensor, 0-d and of that device.
    """
    if isinstance(factor, torch.Tensor):
        for dtype in {grad.dtype for grad in grads}:  # one kernel needs equal dtypes
            scaled = [local(grad) for grad in grads if grad.dtype == dtype]
            torch._foreach_mul_(scaled, factor.to(dtype))
    elif grads:
        torch._foreach_mul_([local(grad) for grad in grads], factor)


def _norm_there(grads: list[torch.Tensor]) -> float | torch.Tensor:
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads))) if grads else 0.0


def total_norm(grads: list[torch.Tensor]) -> float:
    """2-norm of all gradients together; 0 for none.

    Examples:
        >>> total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
        5.0
    """
    return float(_norm_there(grads))


def build_optimizer(
    name: str, params: Iterable[torch.nn.Parameter], settings: dict[str, float], *, fused: bool = False
) -> torch.optim.Optimizer:
    """Build the optimizer that a recipe names.

    Args:
        name: "sgd", "adam", "adamw", "rmsprop" or "adagrad".
        params: trainable parameters.
        settings: lr, momentum, beta1, beta2, eps, weight_decay; those absent keep torch's default.
        fused: take torch's fused kernels where it has them, which can skip a step on the device.

    Raises:
        TaskError: a name that torch does not have; the task can return its own optimizer.

    Examples:
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> build_optimizer("sgd", [weight], {"lr": 0.1, "momentum": 0.9}).defaults["momentum"]
        0.9
    """
    kinds: dict[str, tuple[type[torch.optim.Optimizer], tuple[str, ...]]] = {
        "sgd": (torch.optim.SGD, ("lr", "momentum", "weight_decay")),
        "adam": (torch.optim.Adam, ("lr", "eps", "weight_decay")),
        "adamw": (torch.optim.AdamW, ("lr", "eps", "weight_decay")),
        "rmsprop": (torch.optim.RMSprop, ("lr", "momentum", "eps", "weight_decay")),
        "adagrad": (torch.optim.Adagrad, ("lr", "eps", "weight_decay")),
    }
    if name not in kinds:
        raise TaskError(
            f"optimizer={name!r}: hemostat builds {', '.join(kinds)}. Return yours from optimizer(self, params)."
        )
    kind, accepted = kinds[name]
    arguments: dict[str, Any] = {key: settings[key] for key in accepted if key in settings}
    if name in ("adam", "adamw"):
        arguments["betas"] = (settings.get("beta1", 0.9), settings.get("beta2", 0.999))
    if fused and name in ("sgd", "adam", "adamw"):  # on a GPU the others have none in every torch from 2.9 on
        arguments["fused"] = True
    return kind(params, **arguments)
