"""`cut`: a traced forward, cut between blocks into programs that stages run; every value that crosses travels on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from hemostat.errors import TaskError
from hemostat.train.parallel.tracing import REPAIR

# asked of a tensor, these give no tensor; a stage asks again instead of being told
_SIZE_METHODS: Final = {
    "size",
    "dim",
    "numel",
    "nelement",
    "ndimension",
    "stride",
    "is_floating_point",
    "element_size",
}
_SIZE_ATTRIBUTES: Final = {
    "shape",
    "ndim",
    "dtype",
    "device",
    "is_cuda",
    "requires_grad",
    "itemsize",
    "names",
}
Wrap = Callable[[Any], Any]


class Piece(NamedTuple):
    """The part of a forward that one stage computes.

    Attributes:
        run: called with the stage and its tensors, gives a tuple of tensors.
        names: modules, parameters and buffers it uses.
        source: what `run` does, as Python; equal sources do the same.
    """

    run: Callable[..., tuple[Tensor, ...]]
    names: frozenset[str]
    source: str


def cut(graph: fx.Graph, blocks: Sequence[str], borders: Sequence[int]) -> tuple[list[Piece], Wrap]:
    """Cut between blocks.

    Args:
        graph: from `trace`.
        blocks: names in order.
        borders: stage s has blocks borders[s] to borders[s + 1] - 1.

    Returns:
        The pieces, and what makes the model's output of the last one's tensors.

    Raises:
        TaskError: a block is not called just once, or the blocks are called in another order.
    """
    _check_calls(graph, blocks)
    stage_of = {
        name: stage
        for stage, (first, stop) in enumerate(itertools.pairwise(borders))
        for name in blocks[first:stop]
    }
    plan = _Plan(graph, stage_of, len(borders) - 1)
    return [plan.piece(stage) for stage in range(len(borders) - 1)], plan.wrap


def _check_calls(graph: fx.Graph, blocks: Sequence[str]) -> None:
    order = [node.target for node in graph.nodes if node.op == "call_module" and node.target in set(blocks)]
    if order == list(blocks):
        return
    for name in blocks:
        if order.count(name) != 1:
            times = {0: "never", 2: "twice"}.get(order.count(name), f"{order.count(name)} times")
            raise TaskError(
                f"block {name} is called {times} in a forward, so no cut lies before it. {REPAIR}"
            )
    raise TaskError(
        f"the blocks are called in the order {', '.join(map(str, order))}. Return them so from blocks(self, model)."
    )


class _Plan:
    """At which stage each node is computed, and what each cut lets through."""

    def __init__(self, graph: fx.Graph, stage_of: dict[str, int], num_stages: int) -> None:
        self._nodes = list(graph.nodes)
        self._last = num_stages - 1
        self._output = self._nodes[-1]
        leaves, self._spec = pytree.tree_flatten(_plain(self._output.args[0]))
        self._constants = [None if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
        self._returned = [leaf for leaf in leaves if isinstance(leaf, fx.Node)]
        self._is_tensor = [isinstance(leaf, fx.Node) for leaf in leaves]
        self._sizes: set[fx.Node] = set()
        self._home: dict[fx.Node, int | None] = {}
        for node in self._nodes:
            self._settle(node, stage_of)
        self._last_use: dict[fx.Node, int] = {}
        for node in self._nodes:
            home = self._home[node]
            if home is not None:
                for needed in self._needs(node):
                    self._last_use[needed] = max(home, self._last_use.get(needed, 0))

    def wrap(self, output: Any) -> Any:
        """The model's output from that of the last stage."""
        tensors = iter(output if isinstance(output, tuple) else (output,))
        pairs = zip(self._is_tensor, self._constants, strict=True)
        return pytree.tree_unflatten([next(tensors) if flag else value for flag, value in pairs], self._spec)

    def _settle(self, node: fx.Node, stage_of: dict[str, int]) -> None:
        """As early as what it needs is there; None is what every stage finds for itself."""
        if self._is_size(node):
            self._sizes.add(node)
        needed = [at for arg in self._needs(node) if (at := self._home[arg]) is not None]
        home: int | None
        if node.op == "placeholder":
            home = 0
        elif node.op == "output":
            home = self._last
        elif node.op == "call_module":
            home = stage_of.get(str(node.target), max(needed, default=0))
        elif node.op == "get_attr" or node in self._sizes or not needed:
            home = None
        else:
            home = max(needed)
        self._home[node] = home

    def _is_size(self, node: fx.Node) -> bool:
        if node.op == "call_method":
            return node.target in _SIZE_METHODS
        if node.op != "call_function":
            return False
        if node.target is getattr:
            return node.args[1] in _SIZE_ATTRIBUTES
        inputs = node.all_input_nodes
        arithmetic = getattr(node.target, "__module__", None) in ("_operator", "math")
        return arithmetic and bool(inputs) and all(node in self._sizes for node in inputs)

    def _needs(self, node: fx.Node) -> list[fx.Node]:
        """What must be at hand to compute a node, sizes being asked for again."""
        found: list[fx.Node] = []
        for arg in node.all_input_nodes:
            found.extend([arg] if self._home[arg] is not None else self._needs(arg))
        return list(dict.fromkeys(found))

    def _crossing(self, stage: int) -> list[fx.Node]:
        """What the cut behind a stage lets through."""
        return [
            node
            for node in self._nodes
            if (home := self._home[node]) is not None and home <= stage < self._last_use.get(node, 0)
        ]

    def piece(self, stage: int) -> Piece:
        """The program of one stage."""
        graph, known = fx.Graph(), dict[fx.Node, fx.Node]()
        inputs = [node for node in self._nodes if node.op == "placeholder"]
        for number, node in enumerate(self._crossing(stage - 1) if stage else inputs):
            known[node] = graph.placeholder(f"value_{number}")

        def fetch(node: fx.Node) -> fx.Node:
            if node not in known:
                known[node] = graph.node_copy(node, fetch)
            return known[node]

        for node in self._nodes:
            if self._home[node] == stage and node.op not in ("placeholder", "output"):
                fetch(node)
        given = self._returned if stage == self._last else self._crossing(stage)
        graph.output(tuple(fetch(node) for node in given))
        names = {str(node.target) for node in graph.nodes if node.op in ("call_module", "get_attr")}
        code = graph.python_code("self")
        space = dict(code.globals)
        exec(compile(code.src, f"<stage {stage}>", "exec"), space)
        return Piece(space["forward"], frozenset(names), code.src)


def _plain(tree: Any) -> Any:
    """The graph's own lists and dicts as Python's."""
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    return tuple(map(_plain, tree)) if type(tree) is tuple else tree


def constants_of(model: nn.Module) -> dict[str, Tensor]:
    """Take away the tensors that tracing has put onto a model."""
    names = [name for name in vars(model) if name.startswith("_tensor_constant")]
    return {name: model.__dict__.pop(name) for name in names}
