"""The command that runs a plan: `hemostat train` on one machine, the same inside torchrun on several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hemostat.plan import Choice, Layout, Plan

YOURS = "task.py:Task"  # where a plan was made without one


def layout_text(layout: Layout) -> str:
    """A layout as `--layout` takes it, with all that is not as it is by default.

    Args:
        layout: with everything known.

    Examples:
        >>> from hemostat.plan import Layout
        >>> layout_text(Layout.read("pp=2,schedule=interleaved,stages_per_rank=2").filled(4))
        'pp=2,dp=2,schedule=interleaved,stages_per_rank=2'
        >>> layout_text(Layout(dp=1, fsdp=8, recompute="full", reshard=False))
        'fsdp=8,reshard=false,recompute=full'
    """
    more = {name: value for name, value in layout.changed.items() if name not in layout.sizes}
    if more.get("schedule") == "1f1b":
        del more["schedule"]  # what a pipeline has by default
    return ",".join([str(layout), *(f"{name}={_typed(value)}" for name, value in more.items())])


def _typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def precision_of(plan: Plan) -> str:
    """What the devices compute in: a device without bf16 (V100, T4) takes fp16."""
    wanted = plan.goal.precision
    return "fp16" if wanted == "bf16" and "bf16" not in plan.cluster.device.peak_flop_per_s else wanted


def command(plan: Plan, choice: Choice, task: str) -> str:
    """One line for a shell, the same on each machine.

    Args:
        plan: as it was made.
        choice: the layout that is run.
        task: "file.py:Class"; empty where the plan is not one of a task.
    """
    cluster, goal = plan.cluster, plan.goal
    is_one = cluster.num_nodes == 1
    words = ["hemostat" if is_one else f"{torchrun(plan)} -m hemostat", "train", task or YOURS]
    words += [f"--nproc {cluster.num_devices}"] if is_one else []
    words += [f'--layout "{layout_text(choice.layout)}"', f"--set global_batch={goal.global_batch}"]
    words += [f"--set micro_batch={choice.workload.micro_batch}"]
    if goal.precision != "bf16":  # else the trainer takes the best that the device has
        words.append(f"--set train.precision={goal.precision}")
    return " ".join(words)


def torchrun(plan: Plan) -> str:
    """`torchrun` with the processes of a machine, to be started on each of several.

    Source: PyTorch, docs/source/elastic/run.rst, "multi-node" and "single-node multi-worker".
    """
    cluster = plan.cluster
    where = "--standalone"
    if cluster.num_nodes > 1:
        where = f"--nnodes={cluster.num_nodes} --node-rank=$NODE_RANK --master-addr=$MASTER_ADDR --master-port=29500"
    return f"torchrun {where} --nproc-per-node={cluster.per_node}"
