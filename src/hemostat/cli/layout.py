"""`--layout`: read and checked before a process is started."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from hemostat.cli.audit import FILE, calibration_sentence
from hemostat.cli.planning import of_task, profile_of_model
from hemostat.config import decode, merge
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan import Layout, Plan

_MOST_OTHERS: Final = 3  # layouts that an audit may name beside the one that ran


def read_layout(text: str) -> dict[str, Any]:
    """The table that the flag stands for.

    Raises:
        FieldError: not `axis=number,axis=number`.
        UnknownNameError: an axis that there is not, such as cp.

    Examples:
        >>> read_layout("fsdp=2,tp=2")
        {'fsdp': 2, 'tp': 2}
    """
    axes = Layout.values(text)
    for name in axes:
        if name not in Layout.__struct_fields__:
            raise UnknownNameError("layout", name, Layout.__struct_fields__)
    return axes


class AutoLayout(NamedTuple):
    """The plan's choice for a run.

    Attributes:
        axes: its `[layout]` table.
        micro_batch: samples of one pass.
        forecast: what `hemostat runs audit` compares the run with.
        sentence: for the person who starts it.
    """

    axes: dict[str, Any]
    micro_batch: int
    forecast: dict[str, Any]
    sentence: str


def auto_layout(task: str, nproc: int | None, values: Mapping[str, Any]) -> AutoLayout:
    """The plan's choice for a task on the devices of this machine, or on those that `plan.cluster` names.

    Args:
        task: "file.py:Class"; its model is traced.
        nproc: processes; None: one for each device.
        values: all settings.

    Raises:
        FieldError: no device that a plan knows, or nothing fits.
    """
    section = {name: value for name, value in values.get("plan", {}).items() if name != "cluster"}
    cluster = _cluster(values.get("plan", {}).get("cluster"), nproc)
    profile = profile_of_model(task, None, values)
    plan = Plan.make(profile, cluster, {**of_task(task, values), **section})
    best = plan.best
    if best is None:
        raise FieldError(
            "layout",
            "auto",
            f"nothing fits on {cluster}",
            f"Ask hemostat plan {task} --cluster {cluster} --why.",
        )
    axes = best.layout.changed
    said = _said(best.layout)
    sentence = f"layout auto: {said} on {cluster}, {best.memory.device}; see hemostat plan {task} --cluster {cluster}"
    record = calibration_sentence(Path(".hemostat") / FILE, plan.cluster.device.name, plan.profile.num_params)
    sentence += f"; {record}" if record else ""
    return AutoLayout(axes, best.workload.micro_batch, _forecast(plan, cluster), sentence)


def _forecast(plan: Plan, cluster: str) -> dict[str, Any]:
    """What an audit needs: figures, error bars, on what devices, and what else was possible."""
    best, length = plan.best, plan.goal.num_tokens
    if best is None:
        return {}
    steps = math.ceil(length / best.step.num_tokens) if length else None
    reserved = best.memory.reserved
    return {
        "cluster": cluster,
        "device": plan.cluster.device.name,
        "num_devices": plan.cluster.num_devices,
        "num_params": plan.profile.num_params,
        "layout": _said(best.layout),
        "step_s": best.step.step_s,
        "error": best.step.error,
        "run_s": steps * best.step.step_s if steps else None,
        "usd": best.cost.usd if best.cost else None,
        "reserved_bytes": [reserved.low_bytes, reserved.num_bytes, reserved.high_bytes],
        "others": [
            {"layout": _said(each.layout), "step_s": each.step.step_s}
            for each in plan.found.choices[1 : 1 + _MOST_OTHERS]
        ],
    }


def _said(layout: Layout) -> str:
    return ",".join(f"{name}={_text(value)}" for name, value in layout.changed.items())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cluster(given: str | None, nproc: int | None) -> str:
    """As it was named, else the accelerators of this machine."""
    if given:
        return given
    import torch

    if not torch.cuda.is_available():
        raise FieldError(
            "layout",
            "auto",
            "needs an accelerator, and this machine has none; on CPUs copies are what works",
            "Leave --layout out, or name the devices: --set plan.cluster=8xA100-40GB.",
        )
    name = torch.cuda.get_device_name(0).removeprefix("NVIDIA ").removeprefix("Tesla ")
    return f"{nproc or torch.cuda.device_count()}x{name}"


def with_layout(values: Mapping[str, Any], axes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings with a layout in the place of the one that they have; axes of two layouts are not mixed."""
    if axes is None:
        return dict(values)
    train = {name: value for name, value in values.get("train", {}).items() if name != "layout"}
    return merge({**values, "train": train}, {"train": {"layout": axes}})


def processes_of(axes: Mapping[str, Any]) -> int:
    """The least number of processes that a layout asks for."""
    return _decoded(axes).num_ranks


def check_layout(num_ranks: int, axes: Mapping[str, Any]) -> int:
    """The number of processes itself, if the layout is one of so many.

    Raises:
        FieldError: its product is another number, or a part cannot be meant.
    """
    _decoded(axes).filled(num_ranks)
    return num_ranks


def _decoded(axes: Any) -> Layout:
    if not isinstance(axes, Mapping):
        raise FieldError(
            "layout", axes, "is a section, not a value", "Write it like --set train.layout.fsdp=2."
        )
    return decode(Layout, axes, prefix="layout.")
