"""What each stage of a model computes and holds, found in one of three ways: as a chain, as a decoder, by tracing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hemostat.errors import TaskError
from hemostat.train.parallel import huggingface
from hemostat.train.parallel.cuts import Piece, constants_of, cut
from hemostat.train.parallel.input_form import InputForm
from hemostat.train.parallel.tracing import ancestors_of, trace

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]
Run = Callable[[nn.Module, tuple[Tensor, ...]], tuple[Any, ...]]


class Draft(NamedTuple):
    """One stage before it is a module.

    Attributes:
        runs: called with the stage and its tensors; the first in evaluation, the second in training.
        names: modules, parameters and buffers that it holds.
        constants: tensors that the forward of the model makes of nothing.
    """

    runs: tuple[Run, Run]
    names: set[str]
    constants: Mapping[str, Tensor] = {}


class Drafts(NamedTuple):
    """All stages of a model.

    Attributes:
        stages: in order.
        form: what the first one is given.
        wrap: makes the model's output of the tensors of the last one.
    """

    stages: list[Draft]
    form: InputForm
    wrap: Callable[[Any], Any]


def draft(model: nn.Module, blocks: Sequence[str], borders: Sequence[int], inputs: Inputs | None) -> Drafts:
    """Find out what each stage does.

    Args:
        model: unwrapped; unchanged.
        blocks: names in order.
        borders: stage s has blocks borders[s] to borders[s + 1] - 1.
        inputs: of one micro-batch; None: one tensor for each input that the forward needs.

    Raises:
        TaskError: the model cannot be cut there.
    """
    if model._forward_hooks or model._forward_pre_hooks:
        raise TaskError(
            f"{type(model).__name__} has hooks on its forward, which no stage would run. "
            "Put them onto its blocks, or take them off."
        )
    family = huggingface.family_of(model)
    if family is not None and all(name.rpartition(".")[0] == family.layers for name in blocks):
        drafts = _decoder(model, family, borders, inputs)
    else:
        form = InputForm(*inputs) if inputs is not None else InputForm.of_signature(model)
        is_plain = type(model).forward is nn.Sequential.forward
        if is_plain and all("." not in name for name in blocks):
            drafts = Drafts(_chain(model, blocks, borders), form, _unchanged)
        else:
            drafts = _traced(model, blocks, borders, form)
    _assign_rest(model, ancestors_of(blocks), [stage.names for stage in drafts.stages])
    return drafts


def _unchanged(output: Any) -> Any:
    return output


def _chain(model: nn.Module, blocks: Sequence[str], borders: Sequence[int]) -> list[Draft]:
    """The children of an nn.Sequential; those that are no blocks go with the block before them."""
    children = list(model._modules)
    places = [children.index(name) for name in blocks]
    if places != sorted(places):
        raise TaskError(
            "blocks() returned the children of an nn.Sequential out of order. Return them in order."
        )
    cuts = [0, *(places[border] for border in borders[1:-1]), len(children)]

    def of(names: list[str]) -> Draft:
        def run(stage: nn.Module, values: tuple[Tensor, ...]) -> tuple[Any, ...]:
            value: Any = values[0] if len(values) == 1 else values
            for name in names:
                value = stage.get_submodule(name)(value)
            return value if type(value) is tuple and len(value) > 1 else (value,)

        return Draft((run, run), set(names))

    return [of(children[first:stop]) for first, stop in itertools.pairwise(cuts)]


def _decoder(
    model: nn.Module, family: huggingface.Family, borders: Sequence[int], inputs: Inputs | None
) -> Drafts:
    huggingface.check_decoder(model)
    args, kwargs = inputs if inputs is not None else ((torch.empty(0),), {})
    names = huggingface.input_names(model, args, kwargs)
    last = len(borders) - 2
    stages = []
    for number, limits in enumerate(itertools.pairwise(borders)):
        run = huggingface.DecoderStage(family, model.config, limits, (number == 0, number == last), names)
        stages.append(Draft((run, run), set(run.names())))
    return Drafts(stages, InputForm(args, kwargs), huggingface.output_of(model))


def _traced(model: nn.Module, blocks: Sequence[str], borders: Sequence[int], form: InputForm) -> Drafts:
    """Traced in evaluation and in training, since a forward may ask for its mode."""
    around = ancestors_of(blocks)
    modules = [model.get_submodule(name) for name in around]
    modes = [module.training for module in modules]
    found = []
    try:
        for mode in (False, True):
            for module in modules:
                module.training = mode
            found.append(cut(trace(model, around, form), blocks, borders))
    finally:
        constants = constants_of(model)
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
    (evaluated, _), (trained, wrap) = found
    stages = []
    for pieces in zip(evaluated, trained, strict=True):
        names = {name for piece in pieces for name in piece.names}
        own = {name: constants[name] for name in names & constants.keys()}
        stages.append(Draft((_run(pieces[0]), _run(pieces[1])), names - own.keys(), own))
    return Drafts(stages, form, wrap)


def _run(piece: Piece) -> Run:
    return lambda stage, values: piece.run(stage, *values)


def _assign_rest(model: nn.Module, around: set[str], held: list[set[str]]) -> None:
    """Give what no stage uses to the first one, so that all stages together hold the whole model.

    A second name of something goes where its first one is, and a module of which only a parameter is used goes
    whole.

    Args:
        model: the whole.
        around: modules that are held in parts only.
        held: names by stage; they grow.
    """
    every = set().union(*held)
    owners: dict[int, int] = {}
    for stage, names in reversed(list(enumerate(held))):
        for name in names:
            owners.update(dict.fromkeys(_things(model, name), stage))
    for parent in sorted(around):
        module = model.get_submodule(parent)
        for key in [*module._modules, *module._parameters, *module._buffers]:
            name = f"{parent}.{key}" if parent else key
            if name in every or name in around or getattr(module, key) is None:
                continue
            partial = [
                stage for stage, names in enumerate(held) if any(n.startswith(f"{name}.") for n in names)
            ]
            known = [owners[thing] for thing in _things(model, name) if thing in owners]
            held[min(partial or known or [0])].add(name)


def _things(model: nn.Module, name: str) -> list[int]:
    """Identities of a module and all parameters in it, or of a parameter or buffer."""
    parent, _, key = name.rpartition(".")
    thing = getattr(model.get_submodule(parent), key)
    if isinstance(thing, nn.Module):
        return [id(thing), *(id(param) for param in thing.parameters())]
    return [id(thing)]
