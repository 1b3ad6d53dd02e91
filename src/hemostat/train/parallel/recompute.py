"""Activation checkpointing: what a block computed is dropped, and computed again when backward needs it."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from hemostat.errors import UnknownNameError

KINDS: Final = ("none", "selective", "full")

_aten = torch.ops.aten
# Batched products are left out on purpose: those of unfused attention are the scores, the largest activations of all.
KEPT: Final = (
    _aten.mm.default,
    _aten.addmm.default,
    _aten.convolution.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
)

_select: Any = create_selective_checkpoint_contexts
Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


def recompute(blocks: Iterable[nn.Module], kind: str) -> None:
    """Let blocks compute again in backward what they computed in forward; names of modules and parameters stay.

    Random numbers are the same both times, and running statistics move once.

    Args:
        blocks: modules of the model; tensor parallelism comes before this, sharding and compilation after it.
        kind: "none"; "full": a block keeps its inputs only; "selective": it keeps the outputs of linear layers,
            convolutions and fused attention too, and computes the rest again. A block that works in place (as
            ReLU(inplace=True) does) could spoil what is kept, so "selective" means "full" there.

    Raises:
        UnknownNameError: another kind.

    Source: torch.utils.checkpoint, without re-entrant autograd; selective: arXiv 2205.05198, section 5.
    """
    if kind not in KINDS:
        raise UnknownNameError("layout.recompute", kind, KINDS)
    if kind == "none":
        return
    seen: set[int] = set()
    for block in blocks:
        if id(block) in seen:
            continue
        seen.add(id(block))
        keeps = kind == "selective" and not any(getattr(part, "inplace", False) for part in block.modules())
        _wrap(block, keeps)


def _wrap(block: nn.Module, keeps: bool) -> None:
    own = vars(block).get("forward")  # of a block whose forward was replaced already
    forward: Callable[..., Any] = own.__func__ if isinstance(own, types.MethodType) else type(block).forward

    def again(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(self, *args, **kwargs)
        if contexts := _contexts(self, keeps):
            kwargs["context_fn"] = contexts
        return checkpoint(forward, self, *args, use_reentrant=False, **kwargs)

    # a bound method of the module, so that a copy of it computes with its own weights
    block.forward = types.MethodType(again, block)


def _contexts(block: nn.Module, keeps: bool) -> Callable[[], Contexts] | None:
    """Makes what surrounds a block's forward pass, and what surrounds its repetition; None for nothing."""
    select: Callable[[], Contexts] | None = partial(_select, list(KEPT)) if keeps else None
    if torch.compiler.is_compiling() or not list(_moving(block)):
        return select  # a compiled block does not write to a buffer twice

    def contexts() -> Contexts:
        first, second = select() if select else (nullcontext(), nullcontext())
        return first, _repeated(block, second)

    return contexts


def _moving(block: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Buffers that a forward pass may write to: modules in training that save some."""
    for module in block.modules():
        for name, buffer in module._buffers.items() if module.training else ():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                yield module, name, buffer


@contextmanager
def _repeated(block: nn.Module, inner: AbstractContextManager[Any]) -> Iterator[None]:
    """Buffers are copies meanwhile: batch normalisation would count every batch twice.

    They are exchanged, not written back, because backward may need those that forward has used.
    """
    with ExitStack() as stack:
        for module, name, buffer in list(_moving(block)):
            module._buffers[name] = buffer.clone()
            stack.callback(module._buffers.__setitem__, name, buffer)
        stack.enter_context(inner)
        yield
