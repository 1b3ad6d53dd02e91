"""`Load`: what one position of a pipeline carries, in bytes on one process, before asking when."""

from __future__ import annotations

from typing import NamedTuple

from hemostat.plan.layout import Layout
from hemostat.plan.parallel import fsdp
from hemostat.plan.parallel.dp import num_shares, states
from hemostat.plan.parallel.pp import Held
from hemostat.plan.parallel.tp import (
    divisor,
    local_bytes,
    local_matrix_params,
    local_params,
    loss_temporaries,
)
from hemostat.plan.profile import Kept, Part, Profile
from hemostat.plan.workload import Workload

Items = dict[str, float]


class Kind(NamedTuple):
    """Equal blocks in a row, one of them in bytes or parameters on one process.

    Attributes:
        number: how many.
        params: of one.
        trained: of those.
        kept: from forward to backward.
        passing: for a moment in backward, what is computed again included.
    """

    number: int
    params: float
    trained: float
    kept: float
    passing: float


class Load:
    """What one position of a pipeline carries, in bytes on one process and for one micro-batch.

    Args:
        profile: the model.
        held: the parts on this position.
        layout: how they are divided.
        workload: micro-batch and bytes per parameter.
    """

    def __init__(self, profile: Profile, held: Held, layout: Layout, workload: Workload) -> None:
        self.profile, self.held, self.layout, self.workload = profile, held, layout, workload
        self.regime = workload.regime
        outside = (*held.head, *held.tail)
        is_whole = bool(held.head and held.tail)
        tied = profile.num_tied_params / layout.tp if is_whole else 0.0
        sizes = [(local_params(part, layout), count) for part, count in held.blocks]
        self.units = fsdp.Units(
            root=sum(local_params(part, layout) * part.count for part in outside) - tied,
            blocks=sum(size * count for size, count in sizes),
            block=max((size for size, _ in sizes), default=0.0),
        )
        frozen = sum(
            count * _frozen_params(part, layout)
            for part, count in (*held.blocks, *((part, part.count) for part in outside))
        )
        if is_whole:  # both parts count the parameters that they share
            frozen -= tied * held.tail[-1].num_frozen_params / max(held.tail[-1].num_params, 1)
        self.num_params = self.units.root + self.units.blocks
        self.num_trained = self.num_params - frozen
        self.tail_trained = sum(
            (local_params(part, layout) - _frozen_params(part, layout)) * part.count for part in held.tail
        )
        self.states = states(self.regime, layout, self.num_params, frozen)
        self.weight_shares, self.gradient_shares, self.optimizer_shares = num_shares(self.regime, layout)
        self.is_sharded = self.weight_shares > 1
        self._count_activations()

    def _count_activations(self) -> None:
        layout, samples = self.layout, self.workload.micro_batch
        gathered = 0.0
        self.sent = samples * max((part.input_bytes for part, _ in self.held.blocks), default=0.0)
        if layout.tp > 1 and layout.sequence_parallel:
            # the gathered gradient of a block's result, and that of its input before it is summed over tp
            gathered = 2 * self.sent
        self.kinds = []
        for part, count in self.held.blocks:
            kept, params = _kept_bytes(part, layout), local_params(part, layout)
            again = local_bytes(_without_extra(part), layout) - kept
            passing = part.passing_bytes / layout.tp + (again if layout.recompute != "none" else 0.0)
            trained = params - _frozen_params(part, layout)
            self.kinds.append(Kind(count, params, trained, samples * kept, samples * passing + gathered))
        self.blocks_kept = sum(kind.number * kind.kept for kind in self.kinds)
        self.head_passing = samples * max((part.passing_bytes for part in self.held.head), default=0.0)
        self.head_kept, self.tail_kept = (
            samples * sum(part.count * local_bytes(_without_extra(part), layout) for part in parts)
            for parts in (self.held.head, self.held.tail)
        )
        of_loss = [loss_temporaries(part, layout) for part in self.held.tail]
        self.tail_forward = samples * max((forward for forward, _ in of_loss), default=0.0)
        self.tail_backward = samples * max((backward for _, backward in of_loss), default=0.0)
        results = sum(
            product.rows * product.columns / (layout.tp if product.cut == "columns" else 1)
            for part in self.held.tail
            for product in part.products
        )
        shares = 1 if layout.loss_parallel else 1 / layout.tp
        self.results = samples * self.regime.compute_bytes * results / shares

    @property
    def head_gradients(self) -> float:
        """Gradients of the head's matrix and of its input, made while the gradient of the logits lives.

        Source: the backward pass of a matrix product; the gradient of the input is whole on each rank until it is
            summed over tp. Megatron writes that of the matrix to where it stays.
        """
        made = 0.0 if self.regime.engine == "megatron" else self.regime.compute_bytes * self.tail_trained
        inputs = max((part.input_bytes for part in self.held.tail), default=0.0)
        return made + self.workload.micro_batch * inputs

    @property
    def are_gradients_held(self) -> bool:
        """Gradients have their memory already when the pass begins that is looked at.

        Source: `torch.nn.parallel.DistributedDataParallel`: its buckets live as long as it, and with
            `gradient_as_bucket_view` gradients are views of them.
        """
        is_view = (self.layout.dp or 1) > 1 and not self.is_sharded and not self.regime.bucket_bytes
        is_later = self.workload.accumulation > 1 and not self.is_deferred
        return self.regime.holds_grads or is_later or is_view

    @property
    def is_deferred(self) -> bool:
        """Gradients stay whole until the last micro-batch, which happens to shared-out models in a pipeline."""
        return self.is_sharded and self.layout.pp > 1

    def lasting(self) -> Items:
        """What lives through the whole step."""
        regime, layout = self.regime, self.layout
        items = {
            "weights": self.states.weights,
            "optimizer state": self.states.optimizer,
            "buffers": float(self.profile.num_buffer_bytes),
        }
        if (layout.dp or 1) > 1 and not self.is_sharded:
            items["gradient buckets"] = regime.bucket_bytes * self.num_trained
        if regime.engine == "megatron":
            block = max((local_matrix_params(part, layout) for part, _ in self.held.blocks), default=0.0)
            tail = sum(local_matrix_params(part, layout) for part in self.held.tail)
            items["spare gradients"] = regime.compute_bytes * (block + tail)
            if layout.tp > 1 and layout.sequence_parallel:
                items["gathered activations"] = self.sent
        elif layout.pp > 1:
            items["pipeline buffers"] = self._pipeline_buffers()
        return items

    def in_passes(self) -> Items:
        """What lives through all forward and backward passes of a step.

        Source: torch.distributed.pipelining keeps the gradients of outputs until the weight part; counted by
            bench/layouts.py: on the last of four positions three micro-batches that are put off hold 57 MB of
            activations and 54 MB of gradients.
        """
        items = self.lasting()
        items["gradients that wait"] = self.held.num_waiting * (self.blocks_kept + self.tail_kept)
        if self.is_deferred:
            items["whole gradients"] = fsdp.deferred_bytes(
                self.regime, self.layout, self.units, self.workload.accumulation
            )
        return items

    def gathered(self, num_block_params: float) -> float:
        """Parameters that are whole at the moment, of models that are shared out.

        Args:
            num_block_params: of the blocks that are needed now.
        """
        if not self.is_sharded:
            return 0.0
        return fsdp.gathered_bytes(self.regime, self.layout, self.units, num_block_params)

    def _pipeline_buffers(self) -> float:
        """Tensors at the borders of stages, besides the inputs of the micro-batches in flight.

        Inputs that are yet to come and gradients that come back have a buffer for each micro-batch; the result of each
        pass is kept until its backward pass, and those of the last stage until the step ends. Every position has the
        samples of all micro-batches.

        Source: `_PipelineStageBase` of torch 2.9 to 2.13: `_prepare_forward_infra`, `_create_grad_recv_info`,
            `fwd_cache` and `output_chunks`; hemostat.train.piped_window collects the samples of a window.
        """
        held, number = self.held, self.workload.accumulation
        to_come = held.received_bytes * max(0.0, number - held.num_in_flight)
        and_back = held.sent_bytes * (number + held.num_in_flight)
        borders = (to_come + and_back) / divisor("sp", self.layout)
        # of the first position those in flight count as activations
        samples = self.profile.parts[0].input_bytes * (number - (held.num_in_flight if held.head else 0))
        return self.workload.micro_batch * (borders + samples) + self.results * (number - held.num_tails)

    @property
    def aside_bytes(self) -> float:
        """Reserved, free at the peak, and of no use to it."""
        if not self.is_sharded:
            return 0.0
        freed = 0.0 if self.are_gradients_held else self.states.gradients
        return fsdp.aside_bytes(self.regime, self.units, freed)

    def copies(self, *, in_forward: bool) -> float:
        """Weights in the compute dtype that autocast makes: cached in forward, kept where backward reads them.

        Source: `torch.amp.autocast`, `cache_enabled`: copies of frozen weights are not cached; a block that is
            computed again makes its copies again.
        """
        regime, layout = self.regime, self.layout
        is_rounded = self.is_sharded and regime.zero_stage == 3  # before it is gathered
        if is_rounded or regime.compute_bytes >= regime.weight_bytes:
            return 0.0
        tail = sum(local_matrix_params(part, layout) for part in self.held.tail)
        total = tail
        for part, count in self.held.blocks:
            size = local_matrix_params(part, layout)
            if layout.recompute != "full":
                total += size * count
            elif in_forward and part.num_params:
                total += size * count * (1 - part.num_frozen_params / part.num_params)
            elif not in_forward:
                total = max(total, tail + size)
        return regime.compute_bytes * total

    @property
    def whole_bytes(self) -> float:
        """Weights that stand whole on the device before each process keeps its share: of a unit, or of everything."""
        if not self.is_sharded:
            return 0.0
        whole = self.num_params if self.regime.loads_whole else max(self.units.block, self.units.root)
        return self.regime.weight_bytes * whole

    def on_their_way(self, num_params: float, num_before: float, num_waiting: float) -> float:
        """Gradients in backward that are not shared out yet.

        Args:
            num_params: of the block that backward is in.
            num_before: of the block it went through before.
            num_waiting: outside of the blocks, whose gradients are there and wait for the root's turn.
        """
        if self.is_deferred:
            return 0.0
        if not self.is_sharded:  # ZeRO-2 shares out a block's gradients once they are whole
            return self.regime.grad_bytes * num_params if self.gradient_shares > 1 else 0.0
        return fsdp.reduced_bytes(self.regime, num_params, num_before) + self._waiting(num_waiting)

    def summed(self, num_params: float, num_waiting: float) -> float:
        """Gradients of a unit of shared-out parameters while they are summed, and of those that wait as above."""
        return fsdp.summed_bytes(self.regime, num_params, self.gradient_shares) + self._waiting(num_waiting)

    def _waiting(self, num_params: float) -> float:
        return fsdp.gathered_element_bytes(self.regime) * num_params

    def gradients(self, num_done: float) -> float:
        """Gradients that are there once backward has gone through so many trained parameters.

        Deferred ones are shared out in the last micro-batch, when few activations are left.
        """
        if self.are_gradients_held:
            return self.states.gradients
        return 0.0 if self.is_deferred else self.states.gradients * num_done / max(self.num_trained, 1.0)


def _frozen_params(part: Part, layout: Layout) -> float:
    return part.num_frozen_params * local_params(part, layout) / max(part.num_params, 1)


def _kept_bytes(part: Part, layout: Layout) -> float:
    """What one block keeps of a sample under the layout's recomputation."""
    if not part.is_block or layout.recompute == "none":
        return local_bytes(_without_extra(part), layout)
    if layout.recompute == "full":
        return part.input_bytes / divisor("sp", layout)
    dropped = layout.compile  # a compiled block keeps no output that no backward pass reads
    return local_bytes(
        tuple(kept for kept in part.kept if not kept.is_cheap and not (kept.is_extra and dropped)), layout
    )


def _without_extra(part: Part) -> tuple[Kept, ...]:
    return tuple(kept for kept in part.kept if not kept.is_extra)
