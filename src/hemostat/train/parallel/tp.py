"""Tensor parallelism: ranks share each matrix and compute on the same samples (DTensor, with torch's styles)."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel import loss_parallel as torch_loss_parallel
from torch.utils import _pytree as pytree

from hemostat.errors import TaskError
from hemostat.train.parallel.sharded import local
from hemostat.train.parallel.tp_plan import Planned, features, head_counts, is_conv1d, planned

_CUT: Final = re.compile("DTensor|[Ss]harding (strategy|[Pp]ropagation)")
POSITIONS: Final = 1  # dim of (batch, positions, width) that sequence parallelism cuts


class Shared(NamedTuple):
    """What became of a model.

    Attributes:
        sequence_parallel: activations between the matrices are cut along the positions.
        loss_parallel: the output is a DTensor, cut along the vocabulary.
        notes: what was asked for and is not so, with the reason.
    """

    sequence_parallel: bool
    loss_parallel: bool
    notes: tuple[str, ...]


def parallelize(
    model: nn.Module,
    plan: Mapping[str, str],
    mesh: DeviceMesh,
    *,
    sequence_parallel: bool = True,
    loss_parallel: bool = True,
) -> Shared:
    """Share a model out in place, as its plan says; nothing is sent.

    The words: "colwise" cuts the outputs of a linear layer, "rowwise" the inputs of the one that follows, and adds up;
    "vocab_in" and "vocab_out" cut embedding and head along the vocabulary; "sequence" marks what works position by
    position, such as norms; "heads" what works head by head between colwise and rowwise. What the plan does not name
    is computed whole on each rank. Between the parts, activations are plain tensors, whole on each rank; with
    sequence parallelism DTensors, each rank with its positions (any number of them). What enters and leaves the
    model is plain, but for the logits under loss parallelism.

    Args:
        model: whole, or a pipeline stage; the same weights on all ranks.
        plan: name of a module, in which a `*` stands for one part between dots, to a word. What it names and the
            model lacks is passed over.
        mesh: of one axis, the ranks that share.
        sequence_parallel: cut the positions too, if the plan names every module with parameters.
        loss_parallel: leave the logits cut; loss and backward then run within `context`.

    Raises:
        UnknownNameError: a word that is not known.
        FieldError: the model cannot be cut so; on all ranks, before they meet.

    Source: Megatron-LM (arXiv 1909.08053, section 3; with sequence parallelism arXiv 2205.05198, section 4.2.2).
    """
    found = planned(model, plan, mesh.size())
    notes = []
    why = _why_whole(model, found)
    if sequence_parallel and why:
        notes.append(f"layout.sequence_parallel has no effect: {why}")
        sequence_parallel = False
    shared = Shared(sequence_parallel, loss_parallel and bool(found.named("vocab_out")), tuple(notes))
    if sequence_parallel:
        _gather_whole(model, found, mesh)
    _place(model, found, mesh, shared)
    for name in found.attentions:
        _divide_heads(model.get_submodule(name), mesh.size())
    if sequence_parallel:
        _enter_and_leave(model, found, mesh, keep=shared.loss_parallel)
    return shared


def _place(model: nn.Module, found: Planned, mesh: DeviceMesh, shared: Shared) -> None:
    """Cut the parameters; those that were tied or frozen stay so, which torch's styles do not see to."""
    ties = _ties(model)
    frozen = [
        name for name, param in model.named_parameters(remove_duplicate=False) if not param.requires_grad
    ]
    between: Placement = Shard(POSITIONS) if shared.sequence_parallel else Replicate()
    for name, word in found.words.items():
        module, style = model.get_submodule(name), _style(word, between, shared.loss_parallel)
        if word == "vocab_in":
            _look_up_own_rows(module, mesh, between)
        elif style is not None and is_conv1d(module):
            _share_conv1d(module, mesh, style)
        elif style is not None:
            parallelize_module(module, mesh, style, src_data_rank=None)
    _tie_again(model, ties)
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)


def _why_whole(model: nn.Module, found: Planned) -> str:
    if not found.named("sequence"):
        return "the plan marks no module as 'sequence'"
    if found.strays:
        return f"the plan does not name {found.strays[0] or type(model).__name__}, which has parameters"
    return ""


def _style(word: str, between: Placement, loss_parallel: bool) -> Any:
    cut = isinstance(between, Shard)
    match word:
        case "colwise":
            return ColwiseParallel()
        case "rowwise":
            return RowwiseParallel(output_layouts=between, use_local_output=not cut)
        case "vocab_out" if loss_parallel:
            return ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
        case "vocab_out":
            return ColwiseParallel(output_layouts=Replicate())
        case "heads":  # each rank has other heads; as which dim that is written does not matter
            return SequenceParallel(sequence_dim=0, use_local_output=True)
        case "sequence" if cut:
            return SequenceParallel(sequence_dim=POSITIONS)
        case _:
            return None


def _share_conv1d(module: nn.Module, mesh: DeviceMesh, style: ColwiseParallel | RowwiseParallel) -> None:
    """What a style does to a linear layer, for one whose weight is (inputs, outputs)."""
    colwise = isinstance(style, ColwiseParallel)
    placed = {"weight": Shard(1 if colwise else 0), "bias": Shard(0) if colwise else Replicate()}

    def enter(_: nn.Module, args: Any) -> Any:
        if isinstance(args[0], DTensor):
            return args
        return (DTensor.from_local(args[0], mesh, [Replicate() if colwise else Shard(-1)]), *args[1:])

    def leave(_module: nn.Module, _args: Any, output: DTensor) -> Tensor:
        placed_output = output.redistribute(placements=style.output_layouts)
        return placed_output.to_local() if style.use_local_output else placed_output

    for name, param in list(module.named_parameters(recurse=False)):
        cut = distribute_tensor(param.detach(), mesh, [placed[name]], src_data_rank=None)
        module.register_parameter(name, nn.Parameter(cut))
    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave)


def _gather_whole(model: nn.Module, found: Planned, mesh: DeviceMesh) -> None:
    """Matrices that read the positions get all of them: gathered once for those of one parent."""
    inside = {name for parent in found.gathers for name in found.words if name.rpartition(".")[0] == parent}
    alone = [name for name in (*found.named("colwise"), *found.named("vocab_out")) if name not in inside]

    def gather(_: nn.Module, args: Any, kwargs: Any) -> Any:
        return pytree.tree_map_only(DTensor, _whole_on_mesh, (args, kwargs))

    for name in (*found.gathers, *alone):
        model.get_submodule(name).register_forward_pre_hook(gather, with_kwargs=True)


def _whole_on_mesh(tensor: DTensor) -> DTensor:
    return tensor.redistribute(placements=[Replicate()] * tensor.device_mesh.ndim)


def _enter_and_leave(model: nn.Module, found: Planned, mesh: DeviceMesh, *, keep: bool) -> None:
    """A stage in the middle of a pipeline gets and gives whole activations, as plain tensors."""
    if not found.named("vocab_in"):
        width = _width(model, found)

        def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:
            return pytree.tree_map_only(Tensor, cut, (args, kwargs))

        def cut(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point() or tensor.dim() != 3 or tensor.size(-1) != width:
                return tensor
            whole = DTensor.from_local(tensor, mesh, [Replicate()])
            return whole.redistribute(placements=[Shard(POSITIONS)])

        model.register_forward_pre_hook(enter, with_kwargs=True)
    if not keep:
        model.register_forward_hook(lambda _module, _args, output: whole(output))


def _width(model: nn.Module, found: Planned) -> int:
    name = next(iter([*found.named("colwise"), *found.named("vocab_out")]))
    return features(model.get_submodule(name))[0]


def _ties(model: nn.Module) -> list[list[str]]:
    """Names of parameters that are one."""
    names: dict[int, list[str]] = {}
    for name, param in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(param), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _tie_again(model: nn.Module, ties: Sequence[Sequence[str]]) -> None:
    """Torch's styles make a parameter for each module; those that were one become one again."""
    for first, *others in ties:
        param = model.get_parameter(first)
        for name in others:
            owner, _, attribute = name.rpartition(".")
            model.get_submodule(owner).register_parameter(attribute, param)


def _divide_heads(module: nn.Module, size: int) -> None:
    """A module that views its activations by its own count of heads has this rank's heads now."""
    for owner, attribute, value in list(head_counts(module)):
        if owner is module:
            setattr(module, attribute, value // size)


def _look_up_own_rows(module: nn.Module, mesh: DeviceMesh, between: Placement) -> None:
    """An embedding whose ranks each look up their rows, zeros for the others, and add up.

    Torch's own style gives each rank a gradient of the whole table; here it is that of its rows.

    Source: VocabParallelEmbedding of Megatron-LM (arXiv 1909.08053, section 3).
    """
    weight = module.get_parameter("weight")
    table = distribute_tensor(weight.detach(), mesh, [Shard(0)], src_data_rank=None)
    module.register_parameter("weight", nn.Parameter(table, requires_grad=weight.requires_grad))
    rows = -(-weight.size(0) // mesh.size())  # the last ranks may have fewer
    first = min(rows * mesh.get_local_rank(), weight.size(0))

    def look_up(self: nn.Embedding, ids: Tensor) -> Tensor:
        own = cast(DTensor, self.weight).to_local()  # a gradient goes back through it
        here = (ids >= first) & (ids < first + own.size(0))
        inside = torch.where(here, ids - first, 0)
        padding = self.padding_idx
        if own.size(0) == 0:
            found = own.sum() * own.new_zeros(*ids.shape, own.size(1))
        else:
            found = nn.functional.embedding(inside, own) * here.unsqueeze(-1)
        if padding is not None:
            is_padding = (ids == padding).unsqueeze(-1)
            found = torch.where(is_padding, found.detach(), found)
        summed = DTensor.from_local(found, mesh, [Partial()]).redistribute(placements=[between])
        return summed if isinstance(between, Shard) else summed.to_local()

    module.forward = types.MethodType(look_up, module)


@contextmanager
def context(shared: Shared) -> Iterator[None]:
    """Where the model's forward pass, the task's loss and its backward pass run.

    A plain tensor beside a DTensor (targets, masks) stands for the same on all ranks, and cross-entropy understands
    logits that are cut along the vocabulary.

    Raises:
        TaskError: model or loss does something that torch cannot do with activations or logits that are cut.
    """
    with ExitStack() as stack:
        if shared.sequence_parallel or shared.loss_parallel:
            stack.enter_context(implicit_replication())
        if shared.loss_parallel:
            loss = torch_loss_parallel()
            loss.__enter__()
            # torch's own context does not end where an error leaves it
            stack.callback(loss.__exit__, None, None, None)
        try:
            yield
        except RuntimeError as error:
            if _CUT.search(str(error)) and (shared.sequence_parallel or shared.loss_parallel):
                raise TaskError(_explained(shared, error)) from error
            raise


def _explained(shared: Shared, error: RuntimeError) -> str:
    cut = [name for name in ("sequence_parallel", "loss_parallel") if getattr(shared, name)]
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return (
        f"the model or its loss does something that torch cannot do with a tensor that is shared out: {first[:200]} "
        f"Write {' or '.join(f'layout.{name}=false' for name in reversed(cut))}."
    )


def whole(tree: Any) -> Any:
    """The same with every DTensor as a plain tensor, whole on each rank: losses, and outputs that metrics take."""
    return pytree.tree_map_only(DTensor, lambda tensor: _whole_on_mesh(tensor).to_local(), tree)


def complete_grads(params: Sequence[Tensor]) -> None:
    """Add up gradients of which each rank has seen its positions only; once a window, before anything reads them.

    They are sent together. Where gradients are averaged over data ranks by FSDP, this has happened already and
    nothing is sent.
    """
    parts: dict[tuple[DeviceMesh, torch.dtype], list[Tensor]] = {}
    for param in params:
        grad = param.grad
        if (
            not isinstance(grad, DTensor)
            or not isinstance(param, DTensor)
            or grad.placements == param.placements
        ):
            continue
        if grad.placements == (Partial(),) and param.placements == (Replicate(),):
            parts.setdefault((grad.device_mesh, grad.dtype), []).append(param)
        else:
            param.grad = grad.redistribute(placements=param.placements)
    for (mesh, _), owners in parts.items():
        flat = torch.cat([local(cast(Tensor, owner.grad)).flatten() for owner in owners])
        dist.all_reduce(flat, group=mesh.get_group())
        sums = torch.split(flat, [owner.numel() for owner in owners])
        for owner, part in zip(owners, sums, strict=True):
            owner.grad = DTensor.from_local(part.view(owner.shape), mesh, [Replicate()])
