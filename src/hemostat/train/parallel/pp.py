"""Pipeline parallelism: the micro-batches of a window pass through the stages as the schedule orders them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _Action, _ComputationType, _PipelineScheduleRuntime
from torch.utils import _pytree as pytree

from hemostat.errors import TaskError
from hemostat.plan import Action, Pipeline, pipeline
from hemostat.train.parallel.mesh import Mesh
from hemostat.train.parallel.rows import Inputs, LossOf, first_rows
from hemostat.train.parallel.stages import Stage
from hemostat.train.undone import Buffers

# an error is told by whoever catches it, without the whole schedule before it
logging.getLogger("torch.distributed.pipelining.schedules").setLevel(logging.CRITICAL)
MAX_SHAPES: Final = 4  # shapes of micro-batches whose buffers are kept


class Stages(NamedTuple):
    """The pieces of a model on this rank.

    Attributes:
        modules: by number of the stage; the first one takes the model's inputs, the last one gives its output.
        tied: pairs of parameters here that are one in the whole model, with the group of ranks that hold them.
    """

    modules: dict[int, Stage]
    tied: tuple[Tensor, ...] = ()
    tied_group: dist.ProcessGroup | None = None


class Pipelined(nn.Module):
    """A model in stages; calling it runs a forward pass without gradients, and the last stage has the output.

    Args:
        whole: the model without what is on other ranks; it is not called.
        stages: of this rank.
        mesh: the ranks.

    Attributes:
        autocast: the context of each forward pass in a window.
    """

    def __init__(self, whole: nn.Module, stages: Stages, mesh: Mesh) -> None:
        super().__init__()
        self.whole = whole
        self.stages = stages
        self.mesh = mesh
        self._runs: OrderedDict[Any, _Run] = OrderedDict()
        self.autocast: Callable[[], AbstractContextManager[None]] = nullcontext

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output where the last stage is, None elsewhere; call it on all ranks of the pipeline."""
        run = self._run([(args, kwargs)], backward=False)
        return run.forward((args, kwargs))

    def window(self, inputs: Sequence[Inputs], sizes: Sequence[int], loss_of: LossOf) -> None:
        """Forward and backward of one window; gradients add up in the parameters.

        Args:
            inputs: of each micro-batch, all of the same shapes.
            sizes: rows of each that are no fillers; the first ones.
            loss_of: called where the last stage is, with the output of those rows.

        Raises:
            TaskError: the shapes differ; on all ranks of the pipeline.
        """
        _check_shapes(inputs)
        run = self._run(inputs, backward=True)
        run.window(inputs, sizes, loss_of)
        self._add_tied()

    def _add_tied(self) -> None:
        """A parameter that two stages use has the sum of both gradients, on both."""
        for param in self.stages.tied:
            if param.grad is None:
                param.grad = torch.zeros_like(param)
            part = getattr(param.grad, "_local_tensor", param.grad)
            dist.all_reduce(part, group=self.stages.tied_group)

    def _run(self, inputs: Sequence[Inputs], *, backward: bool) -> _Run:
        leaves, spec = pytree.tree_flatten(inputs[0])
        shapes = tuple((leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves)
        key = (len(inputs), shapes, spec, backward)
        if key not in self._runs:
            self._runs[key] = _Run(self, len(inputs), spec, backward)
            if len(self._runs) > MAX_SHAPES:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]


class _Run:
    """Torch's runtime for one number and shape of micro-batches."""

    def __init__(self, model: Pipelined, num: int, spec: pytree.TreeSpec, backward: bool) -> None:
        stages, mesh, layout = model.stages.modules, model.mesh, model.mesh.layout
        order = pipeline(layout.schedule or "1f1b", layout.pp, num, layout.stages_per_rank)
        self._num = num
        self._wrap = next(iter(stages.values())).wrap
        self._loss_of: LossOf | None = None
        self._sizes: Sequence[int] = ()
        self._buffers = [Buffers(module) for module in stages.values()]
        self._stages = [
            PipelineStage(
                _Stage(module, model, None if number else spec),
                number,
                layout.num_stages,
                mesh.device,
                group=mesh.along("pp").get_group(),
            )
            for number, module in sorted(stages.items())
        ]
        self._runtime = _PipelineScheduleRuntime(  # type: ignore[no-untyped-call]
            self._stages, num, loss_fn=self._loss if backward else None, scale_grads=False
        )
        self._runtime._prepare_schedule_with_comms(actions(order))
        if not backward:
            lowered = self._runtime.pipeline_order_with_comms
            for rank, own in lowered.items():
                lowered[rank] = [action for action in own if action.computation_type in _FORWARD]

    def window(self, inputs: Sequence[Inputs], sizes: Sequence[int], loss_of: LossOf) -> None:
        self._loss_of, self._sizes = loss_of, sizes
        # torch's runtime takes tensors only, so the loss gets the number of the micro-batch in place of its target
        targets = [torch.tensor(number) for number in range(self._num)]
        self._step([_leaves(given) for given in inputs], targets, keep_output=False)
        self._loss_of = None

    def forward(self, inputs: Inputs) -> Any:
        with torch.no_grad():
            self._step([_leaves(inputs)], None, keep_output=True)
        last = self._stages[-1]
        output = self._wrap(last.output_chunks[0]) if last.is_last else None
        for stage in self._stages:
            stage.clear_runtime_states()  # else it would keep the output until the next call
        return output

    def _step(
        self, args: list[tuple[Tensor, ...]], targets: list[Tensor] | None, *, keep_output: bool
    ) -> None:
        for stage in self._stages:
            stage.has_backward = self._runtime._has_backward
            stage.clear_runtime_states()
        if not self._runtime._stages_forward_initialized:
            # torch learns the shapes by a real pass; running statistics must not see it
            for buffers in self._buffers:
                buffers.keep()
            self._runtime._initialize_stages(args[0], {}, targets[0] if targets else None)
            for buffers in self._buffers:
                buffers.put_back()
        self._runtime._step_microbatches(args, None, targets, None, keep_output)

    def _loss(self, output: Any, number: Tensor) -> Tensor:
        if self._loss_of is None:
            raise RuntimeError("a loss was asked for outside of a window")
        index = int(number)
        return self._loss_of(self._wrap(first_rows(output, self._sizes[index])), index)


class _Stage(nn.Module):
    """A stage as torch's runtime calls it: with tensors, in the run's precision.

    Torch looks whether a stage is sharded, and then holds its gradients back whole until the window ends; behind
    this wrapper each micro-batch leaves its shard only.
    """

    def __init__(self, inner: nn.Module, model: Pipelined, spec: pytree.TreeSpec | None) -> None:
        super().__init__()
        self.inner = inner
        self._owner = [model]  # in a list, so that it is no part of this module
        self._spec = spec

    def forward(self, *leaves: Tensor) -> Any:
        with self._owner[0].autocast():
            if self._spec is None:
                return self.inner(*leaves)
            args, kwargs = pytree.tree_unflatten(list(leaves), self._spec)
            return self.inner(*args, **kwargs)


def _check_shapes(inputs: Sequence[Inputs]) -> None:
    shapes = [
        [leaf.shape for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor)] for given in inputs
    ]
    odd = next((number for number, own in enumerate(shapes) if own != shapes[0]), None)
    if odd is not None:
        first, other = ([tuple(shape) for shape in shapes[number]] for number in (0, odd))
        raise TaskError(
            f"micro-batches of one window have the shapes {first} and {other}, and a pipeline needs equal ones. Pad "
            "all samples to one length, or use fsdp in place of pp."
        )


def _leaves(inputs: Inputs) -> tuple[Tensor, ...]:
    leaves = pytree.tree_leaves(inputs)
    strange = next((leaf for leaf in leaves if not isinstance(leaf, Tensor)), None)
    if strange is not None:
        raise TaskError(
            f"the model is given a {type(strange).__name__}, and only tensors enter a pipeline. "
            "Let split() return tensors only."
        )
    return tuple(leaves)


_FORWARD: Final = (_ComputationType.FORWARD, _ComputationType.SEND_F, _ComputationType.RECV_F)
_KINDS: Final = {
    "forward": _ComputationType.FORWARD,
    "backward": _ComputationType.FULL_BACKWARD,
    "backward_input": _ComputationType.BACKWARD_INPUT,
    "backward_weight": _ComputationType.BACKWARD_WEIGHT,
}


def actions(order: Pipeline) -> dict[int, list[_Action | None]]:
    """A schedule as torch's runtime takes it; it adds the communication."""

    def translated(action: Action) -> _Action:
        return _Action(action.stage, _KINDS[action.kind], action.micro_batch)

    return {rank: [translated(action) for action in own] for rank, own in enumerate(order.ranks)}
