"""Refit what no data sheet says to measured steps: those of a table, or the ten steps of a run on one device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.compute import Terms
from hemostat.plan.duration import duration
from hemostat.plan.hardware import Cluster
from hemostat.plan.layout import Layout
from hemostat.plan.profile import Profile
from hemostat.plan.workload import Workload

# In the order in which they matter in most runs; as many are fitted as there are steps.
FITTED: Final = ("matmul", "launch_s", "memory", "link", "attention", "network")
_RANGES: Final = {
    "matmul": (0.05, 1.0),
    "launch_s": (1e-6, 5e-3),
    "memory": (0.05, 1.0),
    "link": (0.02, 1.5),
    "network": (0.02, 1.5),
    "attention": (0.02, 1.0),
}
_STEPS: Final = (1.5, 1.2, 1.08, 1.03, 1.01)  # factors that a term is moved by, from coarse to fine
_MOST_ROUNDS: Final = 12


class Measured(NamedTuple):
    """One measured configuration.

    Attributes:
        profile: of the model.
        layout: with `dp` and `schedule` known.
        workload: of one data rank.
        cluster: it ran on.
        step_s: the median of its steps, in seconds, without the first ones.
    """

    profile: Profile
    layout: Layout
    workload: Workload
    cluster: Cluster
    step_s: float


def calibrate(
    measured: Sequence[Measured], terms: Terms | None = None, names: Sequence[str] | None = None
) -> Terms:
    """Fit terms so that the mean |log(predicted / measured)| of the steps is least.

    One term after the other is moved up and down by smaller and smaller factors, as long as that helps. What the
    steps do not depend on stays as it was: one device says nothing of the links.

    Args:
        measured: steps; several micro batches tell the host's part from the device's.
        terms: to start from; None: those of the published measurements.
        names: of the terms to fit; None: as many of `FITTED` as there are steps.

    Raises:
        FieldError: no steps, or a step that took no time.
        UnknownNameError: a term that cannot be fitted.

    Examples:
        >>> from hemostat.plan.profile import Part, Product
        >>> layer = Part(name="layers", count=8, products=(Product(rows=1, inner=4096, columns=4096),))
        >>> profile, layout = Profile(name="mlp", parts=(layer,)), Layout(dp=1)
        >>> node, work = Cluster.read("1xA100-80GB"), Workload(micro_batch=8192)
        >>> slow_s = duration(profile, layout, work, node, Terms(matmul=0.5)).step_s
        >>> round(calibrate([Measured(profile, layout, work, node, slow_s)]).matmul, 2)
        0.5
    """
    if not measured:
        raise FieldError("measured", (), "has no step", "Give at least one measured step.")
    for row in measured:
        if not 0 < row.step_s < math.inf:
            raise FieldError("step_s", row.step_s, "is no time", "Give the seconds of one step.")
    if names is None:
        names = FITTED[: len(measured)]
    for name in names:
        if name not in _RANGES:
            raise UnknownNameError("names", name, _RANGES)
    best = terms or Terms()
    least = error(measured, best)
    for factor in _STEPS:
        for _ in range(_MOST_ROUNDS):
            before = least
            for name in names:
                best, least = _moved(measured, best, name, factor, least)
            if least >= before:
                break
    return best


def error(measured: Sequence[Measured], terms: Terms) -> float:
    """Mean |log(predicted / measured)|: about the mean relative error, alike for too long and too short.

    Source: Tofallis 2015 (J. Oper. Res. Soc. 66, 1352), which prefers the log of this ratio to the relative
        error.

    Examples:
        >>> error([], Terms())
        0.0
    """
    errors = [
        abs(math.log(duration(row.profile, row.layout, row.workload, row.cluster, terms).step_s / row.step_s))
        for row in measured
    ]
    return math.fsum(errors) / len(errors) if errors else 0.0


def _moved(
    measured: Sequence[Measured], terms: Terms, name: str, factor: float, least: float
) -> tuple[Terms, float]:
    """One term moved while that helps, in the direction that helps; it stays within what is possible."""
    low, high = _RANGES[name]
    for step in (factor, 1.0 / factor):
        helped = False
        while low <= (value := getattr(terms, name) * step) <= high:
            tried = msgspec.structs.replace(terms, **{name: value})
            found = error(measured, tried)
            if found >= least:
                break
            terms, least, helped = tried, found, True
        if helped:
            break
    return terms, least
