"""`build_stages`: a model as pipeline stages that share its modules, under the names they have in the whole model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils import _pytree as pytree

from hemostat.errors import TaskError
from hemostat.train.parallel.drafts import Draft, Drafts, Inputs, draft
from hemostat.train.parallel.mirror import Mirror
from hemostat.train.parallel.parts import Parts, require_blocks


class Stage(Mirror):
    """One piece of a model; it is called with the model's own inputs, or with what the stage before returned.

    Between stages travel tensors: one, or a tuple of them. The last stage returns its output as tensors too (torch's
    schedules take nothing else), and `wrap` gives it the form in which the model returns it: the logits of a
    Hugging Face model become an output with `.logits`. Named inputs are for the first stage; the others ignore
    them, because torch's schedules hand them to every stage of a process.

    Attributes:
        number: of the stage, from 0.
        num_stages: of the model.
        wrap: makes the model's output of what the last stage returned.
    """

    def __init__(self, model: nn.Module, drafts: Drafts, number: int) -> None:
        own: Draft = drafts.stages[number]
        super().__init__(model, own.names)
        self.number, self.num_stages = number, len(drafts.stages)
        self.wrap = drafts.wrap
        self._runs, self._form = own.runs, drafts.form
        for name, constant in own.constants.items():
            self.register_buffer(name, constant, persistent=False)

    @property
    def is_last(self) -> bool:
        """It returns the model's output."""
        return self.number == self.num_stages - 1

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The tensors for the next stage, or of the model's output.

        Raises:
            TaskError: something other than a tensor would have to cross the cut, or the inputs have another form
                than those for which the model was cut.
        """
        values = args if self.number else self._form.tensors(args, kwargs)
        if self.number:
            _send_gradients_whole(values)
        returned = self._runs[self.training](self, values)
        for value in returned:
            if not isinstance(value, Tensor):
                raise TaskError(self._about(value))
        if not self.is_last:
            returned = tuple(_sendable(value, values) for value in returned)
        return returned[0] if len(returned) == 1 else returned

    def _about(self, value: Any) -> str:
        kind = type(self.original).__name__
        if self.is_last:
            return (
                f"{kind} returns a {type(value).__name__} in its output. Let its forward return tensors only."
            )
        return (
            f"{kind} cannot be cut behind stage {self.number}: a {type(value).__name__} would have to cross, and only "
            "tensors do. Let blocks take and return tensors, or write blocks(self, model) with other blocks."
        )


def build_stages(
    model: nn.Module, parts: Parts, borders: Sequence[int], inputs: Inputs | None = None
) -> list[Stage]:
    """Cut a model into stages; nothing is copied.

    Called one after the other they compute what the model computes. Each parameter belongs to the stage that uses
    it, and what the forward never uses to the first one. The stages hold the modules as they are at this time:
    what is wrapped or replaced later must be replaced in a stage.

    Args:
        model: unwrapped, on its device.
        parts: from `find_parts`.
        borders: from `hemostat.plan.balance`: stage s has blocks borders[s] to borders[s + 1] - 1.
        inputs: positional and named inputs of one micro-batch, to see which inputs the model is given; None: one
            tensor for each input that its forward needs.

    Raises:
        TaskError: the model cannot be cut there; with the reason, the place and the repair.

    Examples:
        >>> import torch
        >>> from hemostat.train.parallel.parts import find_parts
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> first, last = build_stages(model, find_parts(model), (0, 2, 3))
        >>> [name for name, _ in last.named_parameters()]
        ['2.weight', '2.bias']
        >>> x = torch.ones(1, 2)
        >>> bool((last(first(x)) == model(x)).all())
        True
    """
    require_blocks(model, parts)
    drafts = draft(model, parts.blocks, borders, inputs)
    stages = [Stage(model, drafts, number) for number in range(len(drafts.stages))]
    if inputs is not None:
        _rehearse(stages, inputs)
    return stages


def _rehearse(stages: Sequence[Stage], inputs: Inputs) -> None:
    """See what would cross the cuts, without computing it: where it is no tensor, every rank says so at once."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # half a second, and only pipelines need it

    with FakeTensorMode(allow_non_fake_inputs=True) as fake, torch.no_grad():
        values, kwargs = pytree.tree_map_only(Tensor, fake.from_tensor, (tuple(inputs[0]), dict(inputs[1])))
        for stage in stages:
            weights: dict[str, Tensor] = {name: fake.from_tensor(tensor) for name, tensor in _tensors(stage)}
            try:
                returned = torch.func.functional_call(stage, weights, values, kwargs, tie_weights=False)
            except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, LookupError):
                return  # a module looks at values, of which there are none: what crosses is seen in the first pass
            values = returned if isinstance(returned, tuple) else (returned,)


def _tensors(stage: Stage) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers, those of a module with several names once: torch does not put them back right else."""
    for prefix, module in stage.named_modules():
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield f"{prefix}.{key}" if prefix else key, tensor


class _Same(torch.autograd.Function):
    """The same tensor as a step of the graph, and no view."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


def _send_gradients_whole(received: tuple[Any, ...]) -> None:
    """Gradients of inputs go back to the stage before; a recurrent layer makes them in another order of strides."""
    for value in received:
        if isinstance(value, Tensor) and value.requires_grad:
            value.register_hook(Tensor.contiguous)  # type: ignore[no-untyped-call]


def _sendable(value: Tensor, received: tuple[Any, ...]) -> Tensor:
    """Contiguous, and an output of this stage's graph: torch's zero-bubble schedules detach it in place, which is
    forbidden for a view and would cut a tensor that is only passed on.
    """
    value = value.contiguous()
    if not value._is_view() and all(value is not other for other in received):
        return value
    return _Same.apply(value) if value.requires_grad else value.detach()  # type: ignore[no-untyped-call]


def tied(model: nn.Module, stages: Sequence[Stage]) -> tuple[str, str] | None:
    """The parameter that first and last stage share, as an embedding and its head do.

    Args:
        model: the whole model.
        stages: all of it, before `prune`.

    Returns:
        Its name on the first stage and its name on the last one; the same where both have it by one name.

    Raises:
        TaskError: stages share something else.
    """
    params: dict[int, dict[int, str]] = {}  # identity to its name by stage
    norms: dict[int, dict[int, str]] = {}
    for stage in stages:
        for name, param in stage.named_parameters(remove_duplicate=False):
            params.setdefault(id(param), {}).setdefault(stage.number, name)
        for name, module in stage.named_modules(remove_duplicate=False):
            if isinstance(module, _NormBase) and module.track_running_stats:
                norms.setdefault(id(module), {}).setdefault(stage.number, name)
    ends = {0, len(stages) - 1}
    shared = [names for names in params.values() if len(names) > 1]
    pairs = [names for names in shared if names.keys() == ends]
    wrong = [names for names in shared if names.keys() != ends] or pairs[1:]
    wrong += [names for names in norms.values() if len(names) > 1]
    if wrong:
        where = " and ".join(f"{name} on stage {number}" for number, name in wrong[0].items())
        raise TaskError(
            f"{type(model).__name__}: stages share {where}. Only one parameter of the first and the last stage can be "
            "shared, as by an embedding and its head. Give each block its own, or use fewer stages."
        )
    return (pairs[0][0], pairs[0][len(stages) - 1]) if pairs else None


def prune(model: nn.Module, stages: Sequence[Mirror]) -> None:
    """Remove from a model what none of this process's stages holds.

    Afterwards its parameters and its state are exactly those of the stages, by the same names; it cannot be called.
    It drops the last references to the other stages' weights only when those stages are dropped too.

    Args:
        model: the whole model that the stages were cut from.
        stages: of this process.
    """
    _prune(model, list(stages))


def _prune(module: nn.Module, mirrors: Sequence[nn.Module]) -> None:
    for key in list(module._modules):
        child = module._modules[key]
        held = [part for mirror in mirrors if (part := mirror._modules.get(key)) is not None]
        if child is None:
            continue
        if not held:
            del module._modules[key]
        elif all(part is not child for part in held):
            _prune(child, held)
    for entries in ("_parameters", "_buffers"):
        own: dict[str, Any] = getattr(module, entries)
        for key in [key for key, value in own.items() if value is not None]:
            if not any(key in getattr(mirror, entries) for mirror in mirrors):
                del own[key]
                module._non_persistent_buffers_set.discard(key)
