"""`profile_of`: any module as a plan's `Profile`, from a forward and a backward pass that compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hemostat.blame import said, user_line
from hemostat.errors import TaskError
from hemostat.plan import Profile
from hemostat.task.batch import map_leaves, num_samples, tensors
from hemostat.task.faked import named_tensors
from hemostat.task.timeline import Timeline
from hemostat.task.traced_parts import profile_from
from hemostat.task.traced_pass import Blocks, Pass

_DTYPES: Final = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def profile_of(
    model: nn.Module,
    batch: Any,
    loss: Callable[[nn.Module, Any], Any],
    blocks: Blocks | None = None,
    *,
    precision: str = "fp32",
    tensor_plan: Mapping[str, str] | None = None,
) -> Profile:
    """Trace a model: parameters, matrix products, what is kept for backward, what passes, by part.

    The passes run on tensors without values, with as many samples as the batch has and with twice as many: what grows
    between the two is per sample, what does not is counted as buffers. Weights, running statistics and random numbers
    stay as they are. Modules are in the mode that they are in; train with dropout, and it is traced with dropout.

    Args:
        model: unwrapped; it may lie on the meta device, and is then traced as on the CPU.
        batch: one micro-batch; of its tensors only shapes and dtypes count.
        loss: called with the model and the batch; returns the loss, or what `LossDoor.compute` returns.
        blocks: names and modules in the order in which they are called; None: each child of the model.
        precision: "fp32", or "bf16" or "fp16" for autocast.
        tensor_plan: name of a module to one of the words of a tensor plan, without `*`.

    Raises:
        TaskError: the passes cannot run without values; the message names the operation and the user's line.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> found = profile_of(model, torch.ones(2, 4), lambda model, x: model(x).sum())
        >>> [(part.name, part.num_params, part.flop, part.kept_bytes) for part in found.parts[:3]]
        [('before the blocks', 0, 0, 16.0), ('0', 40, 64.0, 0), ('1', 0, 0, 32.0)]
    """
    chosen = list(model.named_children()) if blocks is None else list(blocks)
    plan = dict(tensor_plan or {})
    one_sample = num_samples(batch) == 1 and any(isinstance(module, _BatchNorm) for module in model.modules())
    times = 2 if one_sample else 1  # a norm over the batch cannot take one sample alone
    follow = partial(_pass, model, batch, loss=loss, blocks=chosen, precision=precision, plan=plan)
    return profile_from(model, chosen, (follow(times=times), follow(times=2 * times)), plan)


def _pass(
    model: nn.Module,
    batch: Any,
    *,
    times: int,
    loss: Callable[[nn.Module, Any], Any],
    blocks: Blocks,
    precision: str,
    plan: dict[str, str],
) -> Pass:
    """Forward and backward without values, of a batch that is so many times as large."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # half a second, and only a trace needs it

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with fake:
        weights = _faked(fake, dict(named_tensors(model)))
        device = next(iter(weights.values())).device
        given = _enlarged(batch, times, device)
    # out of the mode again: what a forward makes of nothing, such as positions, has values, and it may look at them
    with torch.enable_grad():
        timeline = Timeline(weights.values(), tensors(given))
        found = Pass(timeline, weights, given, len(blocks))
        for tensor in weights.values():
            if tensor.requires_grad:
                tensor.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    lambda weight: timeline.is_gradient(weight.grad)
                )
        renamed = {f"model.{name}": tensor for name, tensor in weights.items()}
        try:
            with (
                timeline,
                torch.autograd.graph.saved_tensors_hooks(timeline.saved, lambda tensor: tensor),
                _marks(model, blocks, found, plan),
            ):
                with torch.autocast(device.type, dtype=_DTYPES[precision], enabled=precision != "fp32"):
                    returned = torch.func.functional_call(
                        _Whole(model, loss), renamed, (given,), tie_weights=False
                    )
                found.end_forward()
                timeline.begin_backward()
                (returned if isinstance(returned, Tensor) else returned.sum).backward()
        except Exception as error:
            raise TaskError(_about(model, timeline, error)) from error
    return found


class _Whole(nn.Module):
    """A model with its loss, so that torch can put other tensors in the place of its weights for one call."""

    def __init__(self, model: nn.Module, loss: Callable[[nn.Module, Any], Any]) -> None:
        super().__init__()
        self.model, self._loss = model, loss

    def forward(self, batch: Any) -> Any:
        return self._loss(self.model, batch)


def _faked(fake: Any, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without values; what is one tensor under two names stays one."""
    made: dict[int, Tensor] = {}
    for tensor in weights.values():
        if id(tensor) not in made:
            made[id(tensor)] = (
                torch.empty_strided(
                    tensor.shape, tensor.stride(), dtype=tensor.dtype, requires_grad=tensor.requires_grad
                )
                if tensor.device.type == "meta"
                else fake.from_tensor(tensor)
            )
    return {name: made[id(tensor)] for name, tensor in weights.items()}


def _enlarged(batch: Any, times: int, device: torch.device) -> Any:
    """A batch without values of so many times as many samples, where the model is."""
    size = num_samples(batch)

    def large(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        lead = (leaf.shape[0] * times,) if leaf.dim() and leaf.shape[0] == size else leaf.shape[:1]
        return torch.empty((*lead, *leaf.shape[1:]), dtype=leaf.dtype, device=device)

    return map_leaves(batch, large)


@contextmanager
def _marks(model: nn.Module, blocks: Blocks, found: Pass, plan: Mapping[str, str]) -> Iterator[None]:
    """Hooks that say where the forward pass is."""
    timeline = found.timeline
    outer: list[tuple[str, str]] = []
    numbers = {id(block): number for number, (_, block) in enumerate(blocks)}

    def enter(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        outer.append((timeline.module, timeline.word))
        if id(module) in numbers:
            found.enter(numbers[id(module)], (args, kwargs))
        timeline.module, timeline.word = name, plan.get(name, timeline.word)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        timeline.module, timeline.word = outer.pop()
        if id(module) in numbers:
            found.leave(numbers[id(module)], output)

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            entering = module.register_forward_pre_hook(
                lambda module, args, kwargs, name=name: enter(name, module, args, kwargs), with_kwargs=True
            )
            hooks.callback(entering.remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        yield


def _about(model: nn.Module, timeline: Timeline, error: Exception) -> str:
    where = user_line(error)
    return (
        f"{type(model).__name__} cannot be traced: "
        f"{f'the operation {timeline.failed} ' if timeline.failed else 'its forward or loss '}"
        f"cannot run without values{f' at {where}' if where else ''}, {said(error)}. "
        "Move what looks at values out of the forward pass and the loss, or plan from a config or from sizes."
    )
