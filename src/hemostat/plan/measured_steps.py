"""Steps that a run took on one device, checked against what is planned, and the terms of time refitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.plan.calibrate import Measured, calibrate, error
from hemostat.plan.candidates import regime_of
from hemostat.plan.compute import Terms
from hemostat.plan.hardware import Cluster
from hemostat.plan.hardware import device as find_device
from hemostat.plan.layout import Layout
from hemostat.plan.profile import Profile
from hemostat.plan.workload import Workload
from hemostat.units import format_seconds

UNEXPLAINED: Final = 0.25  # of log(forecast / measured): more is another model, or no matter of the device


class MeasuredStep(Config, frozen=True, kw_only=True):
    """A step of this model on one device of the cluster's kind; `[[plan.measured]]`, or `--calibrate RUN`.

    Attributes:
        step_s: median seconds of an optimizer step, without the first ones.
        micro_batch: samples of a pass.
        accumulation: passes of a step.
        device: as the driver names it; empty: that of the cluster.
        precision: of the products; empty: that of the plan.
        task: that was trained, "file.py:Class"; empty: nobody said.
        run: where it was measured.
    """

    step_s: float
    micro_batch: int
    accumulation: int = 1
    device: str = ""
    precision: str = ""
    task: str = ""
    run: str = ""


def terms_of(
    steps: Sequence[MeasuredStep], profile: Profile, cluster: Cluster, planned: tuple[str, str]
) -> Terms | None:
    """The terms of time, refitted to steps on one device; None where none was measured.

    Args:
        steps: that were measured.
        profile: of the model that they trained.
        cluster: of such devices.
        planned: optimizer and precision.

    Raises:
        FieldError: they were measured on another device or in another precision, or no term explains them.
    """
    if not steps:
        return None
    optimizer, precision = planned
    one = msgspec.structs.replace(cluster, num_devices=1, per_node=1)
    rows = []
    for step in steps:
        _check(step, cluster, precision)
        regime = regime_of(Layout(dp=1), optimizer, precision, step.accumulation)
        work = Workload(micro_batch=step.micro_batch, accumulation=step.accumulation, regime=regime)
        rows.append(Measured(profile, Layout(dp=1), work, one, step.step_s))
    terms = calibrate(rows)
    off = error(rows, terms)
    if off > UNEXPLAINED:
        taken = ", ".join(format_seconds(row.step_s) for row in rows)
        raise FieldError(
            "plan.measured",
            taken,
            f"is off by a factor of {math.exp(off):.1f} whatever the terms of the time are",
            "Look for what else took time, such as data loading, or for another model or sample size.",
        )
    return terms


def _check(step: MeasuredStep, cluster: Cluster, precision: str) -> None:
    where = f"run {step.run} " if step.run else ""
    if step.device and find_device(step.device, "plan.measured.device") != cluster.device:
        raise FieldError(
            "plan.measured.device",
            step.device,
            f"{where}is no measurement of the {cluster.device.name} that is planned",
            f"Calibrate with a run on one {cluster.device.name}.",
        )
    if step.precision and step.precision != precision:
        raise FieldError(
            "plan.measured.precision",
            step.precision,
            f"{where}is no measurement of {precision}, which is planned",
            f"Plan with --set plan.precision={step.precision}, or calibrate with another run.",
        )
