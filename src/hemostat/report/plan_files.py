"""A plan for people who train with something else: torchrun, an Accelerate config, a DeepSpeed config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hemostat.errors import FieldError, RecordError

if TYPE_CHECKING:
    from hemostat.plan import Choice, Plan

_ALLOCATOR: Final = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def write_plan_files(plan: Plan, folder: Path, name: str) -> list[Path]:
    """Write torchrun.sh, accelerate.yaml and deepspeed.json for the best layout that these can express.

    Args:
        plan: with a layout that fits.
        folder: made where it is not there.
        name: of the user's script, as it stands in the commands.

    Raises:
        FieldError: no layout of copies and shards alone fits; tensor and pipeline parallelism have no place in them.
        RecordError: the folder cannot be written.
    """
    choice = next((each for each in plan.found.choices if each.layout.tp == each.layout.pp == 1), None)
    if choice is None:
        raise FieldError(
            "output",
            str(folder),
            "Accelerate and DeepSpeed configs know copies and shards only, and no such layout fits",
            "Take the command that the plan prints.",
        )
    texts = {
        "torchrun.sh": torchrun_text(plan, name),
        "accelerate.yaml": accelerate_text(plan, choice),
        "deepspeed.json": json.dumps(deepspeed_config(plan, choice), indent=2) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot write {folder}: {error.strerror}. Choose another --output.") from None
    return [folder / file for file in texts]


def torchrun_text(plan: Plan, name: str) -> str:
    """One command for each node; the address of the first one is the user's to fill in."""
    cluster = plan.cluster
    where = (
        "--standalone"
        if cluster.num_nodes == 1
        else f"--nnodes={cluster.num_nodes} --node-rank=$NODE_RANK --master-addr=$MASTER_ADDR --master-port=29500"
    )
    return f"#!/bin/sh\n{_ALLOCATOR} torchrun {where} --nproc-per-node={cluster.per_node} {name}\n"


def accelerate_text(plan: Plan, choice: Choice) -> str:
    """A config of `accelerate launch --config_file`.

    Source: accelerate 1.15, docs/source/usage_guides/fsdp.md and the names that `accelerate config` writes.
    """
    layout = choice.layout
    lines = [
        "compute_environment: LOCAL_MACHINE",
        f"distributed_type: {'FSDP' if layout.fsdp > 1 else 'MULTI_GPU'}",
        f"mixed_precision: {'no' if plan.goal.precision == 'fp32' else plan.goal.precision}",
        f"num_machines: {plan.cluster.num_nodes}",
        f"num_processes: {plan.cluster.num_devices}",
        "machine_rank: 0",
        "main_training_function: main",
        "use_cpu: false",
    ]
    if layout.fsdp > 1:
        lines += [
            "fsdp_config:",
            "  fsdp_version: 2",
            f"  fsdp_reshard_after_forward: {str(layout.reshard).lower()}",
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
            f"  fsdp_activation_checkpointing: {str(layout.recompute != 'none').lower()}",
            "  fsdp_state_dict_type: SHARDED_STATE_DICT",
        ]
    work = choice.workload
    said = (
        f"# per_device_train_batch_size {work.micro_batch}, gradient_accumulation_steps {work.accumulation}"
    )
    return "\n".join([said, *lines]) + "\n"


def deepspeed_config(plan: Plan, choice: Choice) -> dict[str, Any]:
    """A DeepSpeed config: shards become ZeRO stage 3, or 2 where gathered weights are kept.

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
    if plan.goal.precision != "fp32":
        config[plan.goal.precision] = {"enabled": True}
    return config
