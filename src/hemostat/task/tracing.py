"""`profile_of`: any module as a plan's `Profile`, from a forward and a backward pass that compute nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Final

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hemostat.blame import own_line, said
from hemostat.errors import TaskError, UsageError
from hemostat.plan import Plan, Profile
from hemostat.task.batch import map_leaves, num_samples, tensors
from hemostat.task.faked import named_tensors
from hemostat.task.timeline import Timeline
from hemostat.task.traced_parts import profile_from
from hemostat.task.traced_pass import Blocks, Pass

# of the module's own parameters: a closed form that has fewer or more is of another model
_SAME_PARAMS: Final = 0.01
_MEANING: Final = {
    "DataDependentOutputException": "whose result Python needs as a value",
    "DynamicOutputShapeException": "whose number of results depends on values",
}
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

    A model that cannot be traced and has the config of a family that is known (Hugging Face) gets the closed form of
    that family; its source and its first note say so.

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
    try:
        passes = follow(times=times), follow(times=2 * times)
    except TaskError as error:
        closed = _closed_form(model, batch, error)
        if closed is None:
            raise
        return closed
    return profile_from(model, chosen, passes, plan)


def _closed_form(model: nn.Module, batch: Any, error: TaskError) -> Profile | None:
    """The profile of a family that the model's config names; None where there is none, or it is another model."""
    config: Any = getattr(model, "config", None)
    tokens = next((tensor.shape[1] for tensor in tensors(batch) if tensor.dim() > 1), None)
    if tokens is None or not hasattr(config, "to_dict"):
        return None
    try:
        found = Plan.profile_of_config(config.to_dict(), tokens)
    except UsageError:  # no family that is known: then the first error is the one that helps
        return None
    own = sum(param.numel() for param in model.parameters())
    if abs(found.num_params - own) > _SAME_PARAMS * own:
        return None
    reason = str(error).partition(". ")[0]
    return msgspec.structs.replace(found, source=f"not traced, but the closed form of its config: {reason}")


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
        places: list[str] = []  # where something failed
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
                _marks(model, blocks, found, plan, places),
            ):
                with torch.autocast(device.type, dtype=_DTYPES[precision], enabled=precision != "fp32"):
                    returned = torch.func.functional_call(
                        _Whole(model, loss), renamed, (given,), tie_weights=False
                    )
                found.end_forward()
                places.append("its backward pass")
                timeline.begin_backward()
                (returned if isinstance(returned, Tensor) else returned.sum).backward()
        except Exception as error:
            place = places[0] if places else "its loss"
            raise TaskError(_about(type(model).__name__, place, timeline.failed, error)) from error
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
def _marks(
    model: nn.Module, blocks: Blocks, found: Pass, plan: Mapping[str, str], places: list[str]
) -> Iterator[None]:
    """Hooks that say where the forward pass is, and where it has failed, the innermost module first."""
    timeline = found.timeline
    outer: list[tuple[str, str]] = []
    numbers = {id(block): number for number, (_, block) in enumerate(blocks)}

    def enter(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        outer.append((timeline.module, timeline.word))
        if id(module) in numbers:
            found.enter(numbers[id(module)], (args, kwargs))
        timeline.module, timeline.word = name, plan.get(name, timeline.word)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if sys.exc_info()[1] is not None:  # the innermost one is left first
            places.append(f"its forward pass{f', in {timeline.module}' if timeline.module else ''}")
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


def _about(name: str, place: str, operation: str, error: Exception) -> str:
    """Where it went wrong, and what to do: of the first error, not of those that carry it on."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    meaning = _MEANING.get(type(error).__name__, f"which failed: {said(error).rstrip('. ')}")
    what = f"failed without values: {said(error).rstrip('. ')}"
    if operation:
        what = f"runs the operation {operation.removesuffix('.default')}, {meaning}"
    where = own_line(error)
    return (
        f"{name} cannot be traced: {place}{f' ({where})' if where else ''} {what}. "
        "Move what looks at values out of it, or plan from a config.json or from sizes."
    )
