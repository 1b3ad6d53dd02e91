"""`arrange`: a model as its layout divides it: stages, shared matrices, recomputation, shards, in this order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hemostat.errors import TaskError
from hemostat.plan import Layout, balance
from hemostat.task import block_costs
from hemostat.train.optimizer_state import param_names
from hemostat.train.parallel import dp
from hemostat.train.parallel.alike import check_same_model
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.parallel.rows import Inputs
from hemostat.train.together import together
from hemostat.train.update import Norm, grad_norm

if TYPE_CHECKING:
    from hemostat.train.parallel.parts import Parts
    from hemostat.train.parallel.pp import Pipelined
    from hemostat.train.parallel.stages import Stage
    from hemostat.train.parallel.tp import Shared


class Splittable(NamedTuple):
    """A model with what its task says of where it can be split.

    Attributes:
        model: unwrapped.
        blocks: its blocks in order; None: found by their kind.
        tensor_plan: module name to style; None: known for its kind, or none.
        inputs: positional and named inputs of a micro-batch; None: a tensor for each input that it needs, and stages
            of equally many blocks.
        loss: of the model's output for these inputs; it costs time on the last stage.
        probe: loss of one sample under a model, whole or divided; None where another rank has the output.
    """

    model: nn.Module
    blocks: Sequence[nn.Module] | None = None
    tensor_plan: Mapping[str, str] | None = None
    inputs: Inputs | None = None
    loss: Callable[[Any], Any] | None = None
    probe: Callable[[nn.Module], float | None] | None = None

    @classmethod
    def of(cls, model: nn.Module | Splittable) -> Splittable:
        """The same, or a model of which nothing is said."""
        return model if isinstance(model, cls) else cls(model)  # type: ignore[arg-type]


class Arranged(NamedTuple):
    """The part of a model on this rank.

    Attributes:
        model: its parameters are those of this rank, by the names they have in the whole model.
        layout: what it was divided by.
        pieces: the stages here, or the model; none where it is whole.
        pipeline: runs the stages; None where there is one.
        shared: what tensor parallelism has made of it; None without.
        norm: 2-norm of the gradient over all ranks.
        aliases: name here to name in the whole model, of parameters that two stages share.
        notes: what was asked for and is not so, with the reason.
        expected: what `probe` said of the whole model.
        names_by_rank: of all tensors in the state of each rank's stages; empty where there are none.
    """

    model: nn.Module
    layout: Layout
    pieces: Sequence[nn.Module] = ()
    pipeline: Pipelined | None = None
    shared: Shared | None = None
    norm: Norm = grad_norm
    aliases: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()
    expected: float | None = None
    names_by_rank: Sequence[Sequence[str]] = ()

    def param_names(self, optimizer: torch.optim.Optimizer) -> list[str]:
        """Names of the optimizer's parameters in its own order, the same under every layout."""
        return [self.aliases.get(name, name) for name in param_names(self.model, optimizer)]

    def stream(self, mesh: Mesh) -> int:
        """Which random numbers this rank draws.

        Ranks of one tp group draw the same, for what each of them holds whole; with sequence parallelism they hold
        nothing whole but parameters, and draw apart.
        """
        apart = self.shared is not None and self.shared.sequence_parallel
        place = mesh.place.pp + mesh.layout.pp * (mesh.place.tp if apart else 0)
        return mesh.data_rank + mesh.num_data_ranks * place

    @property
    def judged(self) -> nn.Module:
        """What evaluations call."""
        return self.pipeline or self.model

    def accumulating(self, model: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Hold back what can wait of the averaging of gradients on every micro-batch but the last of a window."""
        if self.layout.is_dp:
            return dp.accumulating(model, last)
        if self.layout.fsdp == 1 and self.layout.num_data_ranks == 1:
            return nullcontext()
        from hemostat.train.parallel import fsdp

        return fsdp.accumulating(model, last)

    def context(self) -> AbstractContextManager[None]:
        """Where forward pass, loss and backward pass run."""
        if self.shared is None:
            return nullcontext()
        from hemostat.train.parallel import tp

        return tp.context(self.shared)

    def whole(self, tree: Any) -> Any:
        """A tree with every tensor whole on this rank."""
        if self.shared is None:
            return tree
        from hemostat.train.parallel import tp

        return tp.whole(tree)

    def end_evaluation(self) -> None:
        """Drop what forward passes without a backward have left gathered."""
        if self.layout.is_dp or self.layout.num_data_ranks == 1:
            return
        from hemostat.train.parallel import fsdp

        for piece in self.pieces:
            fsdp.reshard(piece)

    def complete(self, params: Sequence[Tensor]) -> None:
        """Add up the gradients of which this rank has seen a part only; once a window, on all ranks."""
        if self.shared is not None:
            from hemostat.train.parallel import tp

            tp.complete_grads(params)


def arrange(
    given: Splittable,
    mesh: Mesh,
    optimizer: torch.optim.Optimizer | None,
    rounding: torch.dtype | None = None,
) -> Arranged:
    """Divide a model in place, and let its optimizer follow.

    Args:
        given: freshly built, the same weights on all ranks.
        mesh: the ranks.
        optimizer: over its parameters; None where it is built afterwards.
        rounding: dtype that forward and backward round to; None for none.

    Raises:
        UsageError: the model cannot be divided so; on all ranks, before they meet.
    """
    model, layout = given.model, mesh.layout
    if layout.is_dp and layout.recompute == "none" and not layout.compile:
        return Arranged(model, layout)
    from hemostat.train.parallel.parts import find_parts, require_blocks, require_tensor_plan

    if not layout.is_dp:
        check_same_model(model, mesh.world)
    parts = find_parts(model, given.blocks, given.tensor_plan)
    if layout.recompute != "none" or layout.compile:
        require_blocks(model, parts)
    if layout.tp > 1:
        require_tensor_plan(model, parts)
    names = {id(param): name for name, param in model.named_parameters()}
    order = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    expected = None if layout.is_dp or given.probe is None else given.probe(model)
    stages, tie = _stages(given, parts, mesh) if layout.pp > 1 else ([], None)
    mine = [stage for stage in stages if stage.number % layout.pp == mesh.place.pp]
    pieces: list[nn.Module] = [*mine] or [model]
    blocks = [
        module for name, module in zip(parts.blocks, parts.modules(model), strict=True) if _held(name, pieces)
    ]
    if stages:
        _check_trainable(stages, mesh)
    shared = _together(mesh, lambda: _divide(pieces, blocks, parts, mesh, rounding))
    staged = _pipeline(model, mine, tie, mesh, order) if stages else _Staged()
    _follow(optimizer, names, model, staged.aliases)
    return Arranged(
        model,
        layout,
        pieces,
        staged.pipeline,
        shared,
        _norm(mesh, staged.tied),
        staged.aliases,
        shared.notes if shared else (),
        expected,
        staged.names_by_rank,
    )


class _Staged(NamedTuple):
    """What there is of stages on this rank; the fields are those of `Arranged`."""

    pipeline: Pipelined | None = None
    tied: Sequence[Tensor] = ()
    aliases: Mapping[str, str] = {}
    names_by_rank: Sequence[Sequence[str]] = ()


def _together(mesh: Mesh, work: Callable[[], Shared | None]) -> Shared | None:
    """A stage that cannot be divided is no business of the other ranks, and they would wait for it."""
    done: list[Shared | None] = []
    _, failure = together(mesh.world, lambda: done.append(work()))
    if failure is not None:
        raise failure.own or TaskError(f"on another rank: {failure.text}")
    return done[0]


def _check_trainable(stages: Sequence[Stage], mesh: Mesh) -> None:
    """Every rank needs something to train, else it has no optimizer."""
    pp = mesh.layout.pp
    for rank in range(pp):
        params = [param for stage in stages if stage.number % pp == rank for param in stage.parameters()]
        if not any(param.requires_grad for param in params):
            raise TaskError(
                f"in layout {mesh.layout} pipeline rank {rank} gets no parameter that requires a gradient. "
                "Use fewer stages, or blocks(self, model) that puts what is frozen beside what is trained."
            )


def _divide(
    pieces: Sequence[nn.Module],
    blocks: Sequence[nn.Module],
    parts: Parts,
    mesh: Mesh,
    rounding: torch.dtype | None,
) -> Shared | None:
    shared = _share(pieces, parts, mesh)
    _rework(blocks, mesh)
    _shard(pieces, blocks, mesh, rounding)
    return shared


def _norm(mesh: Mesh, tied: Sequence[Tensor]) -> Norm:
    if mesh.layout.is_dp:
        return grad_norm
    from hemostat.train.parallel.norm import GradNorm

    return GradNorm(mesh.layout.num_ranks, mesh.layout.pp, tied=tied)


def _follow(
    optimizer: torch.optim.Optimizer | None,
    names: Mapping[int, str],
    model: nn.Module,
    aliases: Mapping[str, str],
) -> None:
    """Give an optimizer the parameters that have taken the place of those it was built over."""
    if optimizer is None:
        return
    now = {aliases.get(name, name): param for name, param in model.named_parameters(remove_duplicate=False)}
    for group in optimizer.param_groups:
        params = [(names.get(id(param)), param) for param in group["params"]]
        group["params"] = [
            param if name is None else now[name] for name, param in params if name is None or name in now
        ]


def _stages(given: Splittable, parts: Parts, mesh: Mesh) -> tuple[list[Stage], tuple[str, str] | None]:
    from hemostat.train.parallel.parts import require_blocks
    from hemostat.train.parallel.stages import build_stages, tied

    require_blocks(given.model, parts)
    blocks = parts.modules(given.model)
    if given.inputs is None:
        borders = balance([1.0] * len(blocks), mesh.layout.num_stages)
    else:
        costs = block_costs(given.model, blocks, given.inputs, given.loss)
        borders = balance(costs.blocks, mesh.layout.num_stages, costs.before, costs.behind)
    stages = build_stages(given.model, parts, borders, given.inputs)
    return stages, tied(given.model, stages)


def _held(name: str, pieces: Sequence[nn.Module]) -> bool:
    return any(name == other for piece in pieces for other, _ in piece.named_modules())


def _share(pieces: Sequence[nn.Module], parts: Parts, mesh: Mesh) -> Shared | None:
    layout = mesh.layout
    if layout.tp == 1:
        return None
    from hemostat.train.parallel import tp

    shared = [
        tp.parallelize(
            piece,
            parts.tensor_plan,
            mesh.along("tp"),
            sequence_parallel=layout.sequence_parallel,
            loss_parallel=layout.loss_parallel,
        )
        for piece in pieces
    ]
    return shared[-1]


def _rework(blocks: Sequence[nn.Module], mesh: Mesh) -> None:
    layout = mesh.layout
    if layout.recompute != "none":
        from hemostat.train.parallel.recompute import recompute

        recompute(blocks, layout.recompute)
    if layout.compile:
        from hemostat.train.parallel.compiled import compile_blocks

        compile_blocks(blocks, mesh.device)


def _shard(
    pieces: Sequence[nn.Module], blocks: Sequence[nn.Module], mesh: Mesh, rounding: torch.dtype | None
) -> None:
    layout = mesh.layout
    if layout.is_dp or layout.num_data_ranks == 1:
        return
    from hemostat.train.parallel import fsdp

    axes = ("dp", "fsdp") if layout.sizes["dp"] > 1 else ("fsdp",)
    for piece in pieces:
        inside = [block for block in blocks if any(block is module for module in piece.modules())]
        if layout.fsdp > 1:
            devices = mesh.along(*axes)
            fsdp.shard(piece, inside, devices, reshard=layout.reshard, rounding=rounding)
        else:
            fsdp.replicate(piece, inside, mesh.along(*axes))


def _pipeline(
    model: nn.Module, mine: Sequence[Stage], tie: tuple[str, str] | None, mesh: Mesh, order: Sequence[str]
) -> _Staged:
    """Prune the model to the stages of this rank, and let them run.

    Args:
        model: the whole one, already divided.
        mine: stages of this rank.
        tie: names of the parameter that first and last stage share.
        mesh: the ranks.
        order: names of all parameters, as the whole model has them.
    """
    from hemostat.train.parallel.pp import Pipelined, Stages
    from hemostat.train.parallel.stages import prune

    prune(model, mine)
    params: tuple[Tensor, ...] = ()
    group, aliases = None, {}
    if tie is not None:
        group = _tied_group(mesh)
        held = dict(model.named_parameters(remove_duplicate=False))
        name = tie[0] if mesh.place.pp == 0 else tie[1]
        if name in held:
            first = min(tie, key=order.index)  # in one process a parameter has the name that comes first
            params, aliases = (held[name],), {name: first}
    stages = Stages({stage.number: stage for stage in mine}, params, group)
    names_by_rank = [json.loads(text) for text in mesh.world.gather(json.dumps(list(model.state_dict())))]
    return _Staged(Pipelined(model, stages, mesh), params, aliases, names_by_rank)


def _tied_group(mesh: Mesh) -> dist.ProcessGroup | None:
    """First and last rank of this rank's pipeline; all ranks take part in making each such group."""
    layout, mine = mesh.layout, None
    pipelines: dict[tuple[int, ...], list[int]] = {}
    for rank in range(layout.num_ranks):
        pipelines.setdefault(layout.place(rank)[1:], []).append(rank)
    for place, ranks in pipelines.items():
        group = dist.new_group([ranks[0], ranks[-1]])
        if place == mesh.place[1:]:
            mine = group
    return mine
