"""`--layout`: read and checked before a process is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hemostat.cli.planning import of_task, profile_of_model
from hemostat.config import decode, merge
from hemostat.errors import FieldError
from hemostat.plan import Layout, Plan


def read_layout(text: str) -> dict[str, Any]:
    """The table that the flag stands for.

    Raises:
        FieldError: not `axis=number,axis=number`.
    """
    return Layout.values(text)


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
    said = ",".join(f"{name}={_text(value)}" for name, value in axes.items())
    forecast = {
        "cluster": cluster,
        "layout": said,
        "step_s": best.step.step_s,
        "error": best.step.error,
        "device_bytes": best.memory.device.num_bytes,
        "usd": best.cost.usd if best.cost else None,
    }
    sentence = f"layout auto: {said} on {cluster}, {best.memory.device}; see hemostat plan {task} --cluster {cluster}"
    return AutoLayout(axes, best.workload.micro_batch, forecast, sentence)


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
