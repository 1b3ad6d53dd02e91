"""Refit what no data sheet says to measured steps: those of a table, or the ten steps of a run on one device."""

from __future__ import annotations

import math
import operator
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

FITTED: Final = ("matmul", "launch_s", "memory", "link", "attention", "network")
_RANGES: Final = {
    "matmul": (0.05, 1.0),
    "launch_s": (1e-6, 5e-3),
    "memory": (0.05, 1.0),
    "link": (0.02, 1.5),
    "network": (0.02, 1.5),
    "attention": (0.02, 1.0),
    "overlap": (0.05, 1.0),
}
_STEPS: Final = (1.5, 1.2, 1.08, 1.03, 1.01)  # factors that a term is moved by, from coarse to fine
_MOST_ROUNDS: Final = 12
_MOST_FACTOR: Final = 4.0  # what is further off is not explained by this term
_TRIED: Final = 1.05
_LEAST_SLOPE: Final = 0.1  # a term counts where a tenth more of it changes the steps by a hundredth


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

    One term after the other is moved up and down by smaller and smaller factors, as long as that helps, and none by
    more than a factor of 4. What the steps do not depend on stays as it was: one device says nothing of the links, and
    a step that waits for the host nothing of the products.

    Args:
        measured: steps; several micro batches tell the host's part from the device's.
        terms: to start from; None: those of the published measurements.
        names: of the terms to fit; None: those that these steps tell apart, as many as there are steps at most.

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
    best = terms or Terms()
    for name in names or ():
        if name not in _RANGES:
            raise UnknownNameError("names", name, _RANGES)
    if names is None:
        names = told_apart(measured, best)
    bounds = {name: _bounds(name, best) for name in names}
    least = error(measured, best)
    for factor in _STEPS:
        for _ in range(_MOST_ROUNDS):
            before = least
            for name in names:
                best, least = _moved(measured, best, (name, *bounds[name]), factor, least)
            if least >= before:
                break
    return best


def told_apart(measured: Sequence[Measured], terms: Terms) -> list[str]:
    """The terms that steps depend on, the strongest first, and each in another way than those before it.

    Source: Gram-Schmidt with pivots (Golub and Van Loan, Matrix Computations, section 5.4.2) on the slopes of the
        logarithm of the steps over that of the terms.

    Examples:
        >>> from hemostat.plan.profile import Part, Product
        >>> layer = Part(name="layers", count=8, products=(Product(rows=1, inner=1024, columns=1024),))
        >>> profile, layout, node = Profile(name="mlp", parts=(layer,)), Layout(dp=1), Cluster.read("1xA100-80GB")
        >>> few, many = (Measured(profile, layout, Workload(micro_batch=n), node, 1.0) for n in (1, 65536))
        >>> told_apart([few], Terms()), told_apart([many], Terms()), told_apart([few, many], Terms())
        (['launch_s'], ['matmul'], ['matmul', 'launch_s'])
    """
    slopes = {name: [_slope(row, terms, name) for row in measured] for name in FITTED}
    found: list[str] = []
    while slopes and len(found) < len(measured):
        name = max(slopes, key=lambda each: math.hypot(*slopes[each]))
        along = slopes.pop(name)
        length = math.hypot(*along)
        if length < _LEAST_SLOPE * math.sqrt(len(measured)):
            break
        found.append(name)
        for other, values in slopes.items():
            part = math.fsum(map(operator.mul, values, along)) / length**2
            slopes[other] = [value - part * each for value, each in zip(values, along, strict=True)]
    return found


def _slope(row: Measured, terms: Terms, name: str) -> float:
    """By what power of a term a step changes, in the direction in which it changes more."""
    now_s = _step_s(row, terms)
    found = []
    for factor in (_TRIED, 1.0 / _TRIED):
        tried = msgspec.structs.replace(terms, **{name: getattr(terms, name) * factor})
        found.append(math.log(_step_s(row, tried) / now_s) / math.log(factor))
    return max(found, key=abs)


def _bounds(name: str, terms: Terms) -> tuple[float, float]:
    low, high = _RANGES[name]
    value = getattr(terms, name)
    return max(low, value / _MOST_FACTOR), min(high, value * _MOST_FACTOR)


def _step_s(row: Measured, terms: Terms) -> float:
    return duration(row.profile, row.layout, row.workload, row.cluster, terms).step_s


def error(measured: Sequence[Measured], terms: Terms) -> float:
    """Mean |log(predicted / measured)|: about the mean relative error, alike for too long and too short.

    Source: Tofallis 2015 (J. Oper. Res. Soc. 66, 1352), which prefers the log of this ratio to the relative
        error.

    Examples:
        >>> error([], Terms())
        0.0
    """
    errors = [abs(math.log(_step_s(row, terms) / row.step_s)) for row in measured]
    return math.fsum(errors) / len(errors) if errors else 0.0


def _moved(
    measured: Sequence[Measured], terms: Terms, bounded: tuple[str, float, float], factor: float, least: float
) -> tuple[Terms, float]:
    """One term moved while that helps, in the direction that helps; it stays within its bounds."""
    name, low, high = bounded
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
