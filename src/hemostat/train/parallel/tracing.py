"""`trace`: what a model's forward does around its blocks, as a graph; the blocks and all other modules stay whole."""

from __future__ import annotations

import dis
import random
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

import numpy
import torch
from torch import fx, nn

from hemostat.blame import said, shown, user_line
from hemostat.errors import HemostatError, TaskError
from hemostat.train.parallel.input_form import InputForm

REPAIR = (
    "Move these lines into a module of their own (modules beside the blocks are called, not followed), "
    "or write blocks(self, model) so that the model is those blocks one after the other."
)


def trace(model: nn.Module, ancestors: Collection[str], form: InputForm) -> fx.Graph:
    """Follow the forward of a model without computing anything.

    Args:
        model: unwrapped; unchanged, but for tensors that its forward makes itself, which the graph calls
            `_tensor_constant0` and so on, and which the caller takes away.
        ancestors: modules around the blocks, "" for the model; only their forward is followed.
        form: what the model is given.

    Raises:
        TaskError: the forward cannot be followed, or would not do the same each time.
    """
    tracer = _Tracer(ancestors, form)
    before = _random_state()
    try:
        graph = tracer.trace(model)
    except HemostatError:
        raise
    except Exception as error:
        raise TaskError(_about(model, tracer, error)) from error
    if _random_state() != before:
        raise TaskError(
            f"{type(model).__name__} cannot be cut into stages: its forward draws random numbers outside of its "
            f"modules, and a stage would repeat the first ones. {REPAIR}"
        )
    return graph


def ancestors_of(blocks: Collection[str]) -> set[str]:
    """Names of the modules around some blocks.

    Examples:
        >>> sorted(ancestors_of(["model.layers.0", "model.layers.1"]))
        ['', 'model', 'model.layers']
    """
    found = {""}
    for block in blocks:
        parts = block.split(".")[:-1]
        found.update(".".join(parts[: depth + 1]) for depth in range(len(parts)))
    return found


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # a buffer is read where it is used, not copied into the graph

    def __init__(self, ancestors: Collection[str], form: InputForm) -> None:
        super().__init__()
        self._ancestors, self._form = ancestors, form
        self._modes = _modes()
        self.inside: list[str] = []  # where tracing is, or stopped

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self._ancestors

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = self.path_of_module(m)
        self.inside.append(name)
        returned = super().call_module(m, forward, args, kwargs)
        self.inside.pop()
        return returned

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        proxies = [
            self.create_proxy("placeholder", f"input_{number}", (), {})
            for number in range(self._form.num_tensors)
        ]
        args, kwargs = self._form.call(proxies)
        return lambda root: root_fn(root, *args, **kwargs), [self.root]

    def to_bool(self, obj: fx.Proxy) -> bool:
        frame = sys._getframe(2)  # behind Proxy.__bool__
        if not _is_assert(frame):
            return super().to_bool(obj)
        text = f"AssertionError at {shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        self.create_proxy("call_function", torch._assert, (obj, text), {})
        return True

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        if _modes() != self._modes:
            raise fx.proxy.TraceError(
                "a context such as torch.no_grad or torch.autocast is not seen by tracing"
            )
        return super().create_node(*args, **kwargs)


def _is_assert(frame: types.FrameType) -> bool:
    """A truth is asked for by an `assert`: its next instruction, where the truth is not given, loads the error."""
    after = [step for step in dis.get_instructions(frame.f_code) if step.offset >= frame.f_lasti]
    jump = next((place for place, step in enumerate(after[:4]) if "IF_TRUE" in step.opname), None)
    loads = after[jump + 1 :][:2] if jump is not None else []
    return any(
        step.opname == "LOAD_ASSERTION_ERROR" or "AssertionError" in str(step.argrepr) for step in loads
    )


def _modes() -> tuple[bool, ...]:
    """What contexts may have changed around a line of forward."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
    )


def _random_state() -> tuple[Any, ...]:
    return (
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpy.random.get_state()[1].tolist(),  # type: ignore[index]
        numpy.random.get_state()[2],  # type: ignore[index]
    )


def _about(model: nn.Module, tracer: _Tracer, error: Exception) -> str:
    name = tracer.inside[-1] if tracer.inside else ""
    module = model.get_submodule(name)
    which = f"{name} ({type(module).__name__})" if name else type(model).__name__
    where = user_line(error)
    return (
        f"{type(model).__name__} cannot be cut into stages: the forward of {which} cannot be followed"
        f"{f' at {where}' if where else ''}, {said(error)}. {REPAIR}"
    )
