"""`block_costs`: what the blocks of a model cost, and what lies before and behind them, for cuts into equal stages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from hemostat.blame import said
from hemostat.task.faked import WITHOUT_VALUES, named_tensors

_aten: Final = torch.ops.aten


class BlockCosts(NamedTuple):
    """Costs of one forward pass, in one unit.

    Attributes:
        blocks: of each block, with what is computed between it and the next one.
        before: of what is computed before the first block is called.
        behind: of what follows the last one: head and loss.
        unit: "FLOP", or "parameters" where the pass could not be followed.
        why: the reason for that; empty for FLOP.
    """

    blocks: tuple[int, ...]
    before: int
    behind: int
    unit: str
    why: str = ""


def block_costs(
    model: nn.Module,
    blocks: Sequence[nn.Module],
    inputs: tuple[Sequence[Any], Mapping[str, Any]],
    loss: Callable[[Any], Any] | None = None,
) -> BlockCosts:
    """Count the floating-point operations of a forward pass, without computing it.

    Counted are matrix products, convolutions, attention, LSTM layers and softmax. The backward pass costs about
    twice as much in every block alike, so it changes no balance. Weights, running statistics and random numbers stay
    as they are.

    Args:
        model: unwrapped.
        blocks: its blocks.
        inputs: positional and named inputs of a micro-batch.
        loss: called with the model's output; its cost counts as behind the blocks.

    Returns:
        FLOP; parameters where the forward looks at values, which a pass without computing does not have.

    Source: torch.utils.flop_counter.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> block_costs(model, list(model), ([torch.ones(2, 4)], {}))
        BlockCosts(blocks=(128, 0, 32), before=0, behind=0, unit='FLOP', why='')
    """
    from torch._subclasses.fake_tensor import FakeTensorMode  # half a second, and only pipelines need it

    args, kwargs = inputs
    why = ""
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, torch.no_grad():
        made = partial(pytree.tree_map_only, torch.Tensor, fake.from_tensor)
        weights = made(dict(named_tensors(model)))
        with (
            FlopCounterMode(display=False, custom_mapping=_MORE) as counter,
            _marks(blocks, counter) as marks,
        ):
            try:
                output = torch.func.functional_call(
                    model, weights, made(tuple(args)), made(dict(kwargs)), tie_weights=False
                )
            except WITHOUT_VALUES as error:
                return _by_parameters(model, blocks, f"its forward cannot run without values, {said(error)}")
            if loss is not None:
                try:
                    loss(output)
                except WITHOUT_VALUES as error:
                    why = f"without the loss, which cannot run without values, {said(error)}"
            marks.finish()
            behind = counter.get_total_flops() - marks.end
    return BlockCosts(tuple(marks.costs), marks.before, behind, "FLOP", why)


class _Marks:
    """Where the count stood when blocks were entered and left."""

    def __init__(self, num_blocks: int) -> None:
        self.costs = [0] * num_blocks
        self.before, self.end = 0, 0
        self._owner: int | None = None
        self._begin = 0

    def enter(self, number: int, count: int) -> None:
        """What was computed since the last block was entered is that block's."""
        self._settle(count)
        self._owner, self._begin = number, count

    def leave(self, count: int) -> None:
        """What follows is behind the blocks, unless another one is entered."""
        self.end = count

    def _settle(self, count: int) -> None:
        if self._owner is None:
            self.before = count
        else:
            self.costs[self._owner] += count - self._begin

    def finish(self) -> None:
        """The last block ends where it was left."""
        self._settle(self.end)


@contextmanager
def _marks(blocks: Sequence[nn.Module], counter: FlopCounterMode) -> Iterator[_Marks]:
    marks = _Marks(len(blocks))
    hooks = []
    for number, block in enumerate(blocks):
        hooks.append(
            block.register_forward_pre_hook(
                lambda *_, number=number: marks.enter(number, counter.get_total_flops())
            )
        )
        hooks.append(block.register_forward_hook(lambda *_: marks.leave(counter.get_total_flops())))
    try:
        yield marks
    finally:
        for hook in hooks:
            hook.remove()


def _by_parameters(model: nn.Module, blocks: Sequence[nn.Module], why: str) -> BlockCosts:
    """Parameters; outside of the blocks by the order in which modules stand, looked-up tables costing nothing."""
    inside = {id(module) for block in blocks for module in block.modules()}
    first = {id(block) for block in blocks}
    sides, seen = [0, 0], 0
    for module in model.modules():
        seen = seen or id(module) in first
        if id(module) not in inside and not isinstance(module, nn.Embedding | nn.EmbeddingBag):
            sides[seen] += sum(param.numel() for param in module.parameters(recurse=False))
    costs = tuple(sum(param.numel() for param in block.parameters()) for block in blocks)
    return BlockCosts(costs, sides[0], sides[1], "parameters", why)


def _attention_flop(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> Any:
    return sdpa_flop_count(query, key, value)  # type: ignore[no-untyped-call]


def _softmax_flop(shape: tuple[int, ...], *_: Any, **__: Any) -> int:
    """Per element: maximum, difference, exponential, sum, and quotient or difference."""
    return 5 * math.prod(shape)


def _recurrent_flop(
    inputs: tuple[int, ...], of_input: tuple[int, ...], of_state: tuple[int, ...], *_: Any, **__: Any
) -> int:
    """A product with the input and one with the state at each step of each sample."""
    return 2 * inputs[0] * inputs[1] * (math.prod(of_input) + math.prod(of_state))


_MORE: Final[dict[Any, Any]] = {
    _aten.mkldnn_rnn_layer: _recurrent_flop,
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention_flop,
    _aten._softmax: _softmax_flop,
    _aten._log_softmax: _softmax_flop,
}
