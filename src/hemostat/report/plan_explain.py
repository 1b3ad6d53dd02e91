"""A plan in plain words, for somebody who has trained on one device so far, with this plan's figures."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from hemostat.report.plan_command import layout_text
from hemostat.report.plan_row import peak_sentence
from hemostat.report.plan_way_out import ways_out
from hemostat.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

WIDTH: Final = 100
# how names of tensors begin that grow with the micro-batch; all others are there for any
_GROWING: Final = (
    "activations",
    "gathered activations",
    "gradients that wait",
    "logits",
    "pipeline buffers",
    "temporaries of the block",
    "temporaries of the loss",
)
_HIGH_BUBBLE: Final = 0.2
_HIDDEN: Final = 0.005  # of a step: traffic that is not worth a word


def explain_lines(plan: Plan) -> list[str]:
    """Paragraphs, wrapped; where nothing fits, what would.

    Args:
        plan: as it was made.
    """
    best = plan.best
    if best is None:
        return ["Nothing fits on this cluster, so there is nothing to explain. What would:", *ways_out(plan)]
    paragraphs = [_memory(plan, best), _peak(best), _copies(plan), _tensor(plan, best), _pipeline(plan, best)]
    lines: list[str] = []
    for paragraph in paragraphs:
        if paragraph:
            lines += [*textwrap.wrap(paragraph, WIDTH), ""]
    return lines[:-1]


def _memory(plan: Plan, best: Choice) -> str:
    params = plan.profile.num_params
    items = best.memory.peak.items
    growing = sum(item.num_bytes for item in items if item.name.startswith(_GROWING))
    fixed = [item for item in items if not item.name.startswith(_GROWING)]
    regime = best.workload.regime
    per_param = regime.weight_bytes + regime.grad_bytes + regime.optimizer_bytes
    held = ", ".join(f"{item.name} {format_bytes(item.num_bytes)}" for item in fixed)
    return (
        f"What a device holds. Training keeps more than the weights: with {plan.goal.optimizer} each of the "
        f"{params:,} parameters takes {per_param:g} bytes ({regime.weight_bytes:g} for itself, {regime.grad_bytes:g} "
        f"for its gradient, {regime.optimizer_bytes:g} for the optimizer), {format_bytes(per_param * params)} for one "
        f"whole copy. Under {layout_text(best.layout)} a device holds {format_bytes(sum(i.num_bytes for i in fixed))} "
        f"at the peak for any number of samples ({held}). The rest of its "
        f"{format_bytes(best.memory.allocated.num_bytes)}, {format_bytes(growing)}, are activations and temporaries, "
        "which grow with the micro-batch."
    )


def _peak(best: Choice) -> str:
    moments = {moment.phase: moment.num_bytes for moment in best.memory.moments}
    loss = moments.get("loss")
    text = f"Where the peak is. Memory is fullest at: {peak_sentence(best)}."
    if best.memory.peak.phase == "loss" and loss is not None:
        text += (
            " The loss is the peak because at that moment all blocks still keep what backward needs, and the logits, "
            "one number for each token and word, come on top, in the loss function's own precision. A smaller "
            "micro-batch or a loss in chunks lowers it; more devices of data parallelism do not."
        )
    return text


def _copies(plan: Plan) -> str:
    """Why memory does not fall with the number of devices."""
    axes = {str(choice.layout): choice for choice in plan.found.choices}
    copies = next((each for each in axes.values() if each.layout.is_dp), None)
    number = plan.cluster.num_devices
    shards = next((each for each in axes.values() if each.layout.fsdp == number), None)
    if number == 1:
        return ""
    text = (
        f"Why memory does not fall on {number} devices. Data parallelism copies: every device holds all weights, "
        "gradients and optimizer state, and only the samples are shared out, so it saves time and no memory."
    )
    if copies is None:
        rejected = next((each for each in plan.found.rejected if each.layout.is_dp), None)
        if rejected is not None:
            text += f" Here it would need {format_bytes(rejected.memory.device.num_bytes)} a device."
    if shards is not None:
        exposed = shards.step.gradient_s / shards.step.step_s
        traffic = (
            f"{format_seconds(shards.step.gradient_s)} of each step ({exposed:.0%}) for traffic that nothing hides"
            if exposed > _HIDDEN
            else "and computing hides the traffic for it"
        )
        text += (
            f" {shards.layout} gives each device a share and gathers a block's weights when it is computed: "
            f"{format_bytes(shards.memory.device.num_bytes)} at micro-batch {shards.workload.micro_batch}, {traffic}."
        )
    return text


def _tensor(plan: Plan, best: Choice) -> str:
    """When tensor parallelism hurts."""
    shared = next((each for each in plan.found.choices if each.layout.tp > 1), None)
    if shared is None:
        return ""
    per_sample = [each.step.step_s / each.step.num_samples for each in (shared, best)]
    share = shared.step.tp_s / shared.step.step_s
    compared = (
        "is the fastest here"
        if shared is best
        else f"takes {per_sample[0] / per_sample[1]:.2f} times as long as {best.layout}"
    )
    return (
        f"When tensor parallelism hurts. It cuts each matrix, so the devices of a group add up their results twice in "
        f"every block and cannot go on before. {shared.layout} {compared}; {share:.0%} of its step is that traffic. "
        "It pays where one block does not fit, within a node; between nodes it rarely does."
    )


def _pipeline(plan: Plan, best: Choice) -> str:
    staged = next((each for each in plan.found.choices if each.layout.pp > 1), None)
    if staged is None:
        return ""
    bubble = staged.layout.bubble(staged.workload.accumulation)
    idle = bubble / (1 + bubble)
    several = staged.layout.stages_per_rank
    turns = f", {several} for each of {staged.layout.pp} groups of devices" if several > 1 else ""
    advice = " Give it more micro-batches." if bubble > _HIGH_BUBBLE else ""
    return (
        f"What a pipeline costs. {layout_text(staged.layout)} cuts the model into {staged.layout.num_stages} stages"
        f"{turns}; a stage waits until the first samples reach it, {idle:.0%} of a step with "
        f"{staged.workload.accumulation} micro-batches."
        f"{advice} It sends little, so it is the axis for slow networks."
    )
