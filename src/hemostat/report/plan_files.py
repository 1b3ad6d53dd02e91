"""A plan for people who train with something else: torchrun, an Accelerate config, a DeepSpeed config."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hemostat.errors import FieldError, RecordError
from hemostat.report.plan_command import layout_text, precision_of, torchrun

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

SCRIPT: Final = "train.py"  # of the user's, where the plan is not one of a task
_ALLOCATOR: Final = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def write_plan_files(plan: Plan, folder: Path, task: str = "") -> list[str]:
    """Write torchrun.sh for the best layout, and accelerate.yaml and deepspeed.json for the best that these express.

    Args:
        plan: with a layout that fits.
        folder: made where it is not there.
        task: "file.py:Class"; empty: torchrun.sh starts a script of the user's.

    Returns:
        A sentence for each file: its path, which layout it holds, and what the script must do besides.

    Raises:
        FieldError: nothing fits.
        RecordError: the folder cannot be written.
    """
    if plan.best is None:
        raise FieldError("output", str(folder), "nothing fits, so there is nothing to write", "See the plan.")
    said, texts = [], {"torchrun.sh": torchrun_text(plan, task)}
    sentences = {"torchrun.sh": layout_text(plan.best.layout)}
    for name, has_hsdp, text in (
        ("accelerate.yaml", True, accelerate_text),
        ("deepspeed.json", False, deepspeed_text),
    ):
        choice = _best_with_copies_and_shards(plan, has_hsdp)
        if choice is None:
            said.append(
                f"no {name}: it knows copies and shards only, and no such layout fits; take torchrun.sh"
            )
            continue
        texts[name] = text(plan, choice)
        sentences[name] = "; ".join(_remarks(plan, choice, name))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in texts.items():
            (folder / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot write {folder}: {error.strerror}. Choose another --output.") from None
    return [f"wrote {folder / name}: {sentences[name]}" for name in texts] + said


def _best_with_copies_and_shards(plan: Plan, has_hsdp: bool) -> Choice | None:
    """The fastest layout without stages and cut matrices; with copies of shards where these can be said."""
    for choice in plan.found.choices:
        layout = choice.layout
        if layout.tp == layout.pp == 1 and (has_hsdp or layout.fsdp == 1 or layout.dp in (None, 1)):
            return choice
    return None


def _remarks(plan: Plan, choice: Choice, name: str) -> Iterator[str]:
    """Which layout a file holds, and what it has no word for."""
    layout, work, best = choice.layout, choice.workload, plan.best
    yield layout_text(layout)
    if best is not None and choice is not best:
        slower = best.step.tokens_per_s / choice.step.tokens_per_s - 1
        yield f"not {layout_text(best.layout)}, which it has no words for and which is {slower:.0%} faster"
    if name == "deepspeed.json":
        taken = work.micro_batch * work.accumulation * layout.num_data_ranks
        if taken != plan.goal.global_batch:
            yield f"its passes are all alike: a step takes {taken:,} samples, not {plan.goal.global_batch:,}"
        if layout.recompute != "none":
            yield "the script must turn recomputation on, such as model.gradient_checkpointing_enable()"
    elif layout.recompute == "selective":
        yield "it recomputes whole blocks, which is slower than the plan's selective recomputation"


def torchrun_text(plan: Plan, task: str = "") -> str:
    """One command for each node; the address of the first one is the user's to fill in.

    Args:
        plan: with a layout that fits.
        task: "file.py:Class"; empty: a script of the user's.
    """
    best = plan.best
    if best is None:
        return ""
    layout, work = layout_text(best.layout), best.workload
    lines = ["#!/bin/sh", f"# {layout}, micro-batch {work.micro_batch}, accumulation {work.accumulation}"]
    if plan.cluster.num_nodes > 1:
        lines.append("# on each machine, with NODE_RANK from 0 on and MASTER_ADDR that of the first")
    script = SCRIPT
    if task:
        script = (
            f'-m hemostat train {task} --layout "{layout}" --set global_batch={plan.goal.global_batch} '
            f"--set micro_batch={work.micro_batch}"
        )
    return "\n".join([*lines, f"{_ALLOCATOR} {torchrun(plan)} {script}"]) + "\n"


def accelerate_text(plan: Plan, choice: Choice) -> str:
    """A config of `accelerate launch --config_file`.

    Args:
        plan: as it was made.
        choice: of copies and shards alone.

    Source: accelerate 1.15, docs/source/usage_guides/fsdp.md and the names that `accelerate config` writes;
        copies of shards as `parallelism_config`, its commands/config/cluster.py.
    """
    layout, work, nodes = choice.layout, choice.workload, plan.cluster.num_nodes
    precision = precision_of(plan)
    lines = [f"# {remark}" for remark in _remarks(plan, choice, "accelerate.yaml")]
    lines += [
        f"# per_device_train_batch_size {work.micro_batch}, gradient_accumulation_steps {work.accumulation}"
    ]
    if nodes > 1:
        lines += [
            "# on each machine: accelerate launch --config_file accelerate.yaml --machine_rank $NODE_RANK \\",
            f"#   --main_process_ip $MASTER_ADDR {SCRIPT}",
        ]
    lines += [
        "compute_environment: LOCAL_MACHINE",
        f"distributed_type: {'FSDP' if layout.fsdp > 1 else 'MULTI_GPU' if layout.num_ranks > 1 else 'NO'}",
        f"mixed_precision: {'no' if precision == 'fp32' else precision}",
        f"num_machines: {nodes}",
        f"num_processes: {plan.cluster.num_devices}",
        "main_training_function: main",
        "use_cpu: false",
        *(["main_process_port: 29500", "rdzv_backend: static", "same_network: true"] if nodes > 1 else []),
    ]
    return "\n".join([*lines, *_fsdp_lines(choice)]) + "\n"


def _fsdp_lines(choice: Choice) -> list[str]:
    layout = choice.layout
    if layout.fsdp == 1:
        return []
    lines = [
        "fsdp_config:",
        "  fsdp_version: 2",
        f"  fsdp_reshard_after_forward: {str(layout.reshard).lower()}",
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        f"  fsdp_activation_checkpointing: {str(layout.recompute != 'none').lower()}",
        "  fsdp_state_dict_type: SHARDED_STATE_DICT",
    ]
    if (layout.dp or 1) > 1:
        lines += [
            "parallelism_config:",
            f"  parallelism_config_dp_replicate_size: {layout.dp}",
            f"  parallelism_config_dp_shard_size: {layout.fsdp}",
            "  parallelism_config_tp_size: 1",
            "  parallelism_config_cp_size: 1",
        ]
    return lines


def deepspeed_text(plan: Plan, choice: Choice) -> str:
    """A DeepSpeed config: shards become ZeRO stage 3, or 2 where gathered weights are kept.

    Args:
        plan: as it was made.
        choice: of copies or shards alone.

    Source: DeepSpeed, docs/_pages/config-json.md.
    """
    layout, work = choice.layout, choice.workload
    stage = 0 if layout.fsdp == 1 else 3 if layout.reshard else 2
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": work.micro_batch,
        "gradient_accumulation_steps": work.accumulation,
        "train_batch_size": work.micro_batch * work.accumulation * layout.num_data_ranks,
        "zero_optimization": {"stage": stage},
    }
    precision = precision_of(plan)
    if precision != "fp32":
        config[precision] = {"enabled": True}
    return json.dumps(config, indent=2) + "\n"
