"""Importance: how much each parameter decides whether a trial is among the best, and what chance alone would show."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hemostat.tune.trial import History, Trial

if TYPE_CHECKING:
    from hemostat.tune.space import Space

TOP_SHARE: Final = 0.25
MIN_TRIALS: Final = 12  # so that at least three are among the best
NUM_SHUFFLES: Final = 200
_NUM_BINS: Final = 50


class Importance(msgspec.Struct, frozen=True, kw_only=True):
    """How much one parameter matters.

    Attributes:
        name: of the parameter.
        share: its part of the whole, 0 to 1, after what chance would show is taken off; all shares add up to 1,
            or all are 0 where no parameter can be told from chance.
        p_value: how often a random order of the same trials shows as much.
    """

    name: str
    share: float
    p_value: float


def ranked(history: History) -> list[Trial]:
    """All trials that were judged, best first: who came further is better, and then who has the lower score there.

    Failures that teach come last. A trial that runs is left out until it has reached its first rung.

    Args:
        history: of the study.
    """
    keys = []
    for trial in history.trials:
        reached = [at for at in history.rungs if any(point.at == at for point in trial.points)]
        score = history.score(trial, reached[-1] if reached else history.rungs[0])
        if score is not None:
            failed = score == float("inf")
            keys.append(((failed, -(reached[-1] if reached else 0), score, trial.number), trial))
    return [trial for _, trial in sorted(keys, key=lambda pair: pair[0])]


def importance(space: Space, history: History, seed: int = 0) -> list[Importance]:
    """Compare where the best quarter of the trials lies with where all of them lie, one parameter at a time.

    The measure is the Pearson divergence between the two densities. It is positive by chance too, most of all with
    few trials; so the mean over random orders of the same trials is taken off, and the share of those orders that
    show as much is the p-value.

    Args:
        space: of the study.
        history: all its trials.
        seed: of the random orders.

    Returns:
        The most important first; empty with fewer than `MIN_TRIALS` judged trials.

    Source: PED-ANOVA, Watanabe, Bansal and Hutter, IJCAI 2023, equation 16, within the trials made; the permutation
        test is ours.
    """
    order = ranked(history)
    if len(order) < MIN_TRIALS:
        return []
    import numpy

    units = numpy.array([space.encode(trial.config) for trial in order])
    num_top = max(3, round(TOP_SHARE * len(order)))
    bins = [_densities(units[:, column]) for column in range(len(space.names))]
    top = numpy.zeros(len(order), dtype=bool)
    top[:num_top] = True
    found = _divergences(bins, top)
    rng = random.Random(seed)
    chance = []
    for _ in range(NUM_SHUFFLES):
        shuffled = numpy.zeros(len(order), dtype=bool)
        shuffled[rng.sample(range(len(order)), num_top)] = True
        chance.append(_divergences(bins, shuffled))
    beyond = numpy.maximum(found - numpy.mean(chance, axis=0), 0.0)
    p_values = (1 + (numpy.array(chance) >= found).sum(axis=0)) / (1 + NUM_SHUFFLES)
    whole = float(beyond.sum())
    table = [
        Importance(
            name=name, share=float(beyond[place]) / whole if whole else 0.0, p_value=float(p_values[place])
        )
        for place, name in enumerate(space.names)
    ]
    return sorted(table, key=lambda each: (-each.share, each.name))


def _densities(column: Any) -> Any:
    """How much each trial adds to the density at each of the bins, shape (trials, bins)."""
    import numpy

    centres = numpy.linspace(0.0, 1.0, _NUM_BINS)
    spread = float(numpy.std(column))
    # Scott's rule; never finer than the bins
    width = max(1.06 * spread * len(column) ** -0.2, 1.0 / _NUM_BINS)
    kernels = numpy.exp(-0.5 * ((centres[None, :] - column[:, None]) / width) ** 2)
    return kernels / kernels.sum(axis=1, keepdims=True)


def _divergences(bins: list[Any], top: Any) -> Any:
    import numpy

    found = []
    for weights in bins:
        everywhere, best = weights.mean(axis=0), weights[top].mean(axis=0)
        found.append(float(((best - everywhere) ** 2 / numpy.maximum(everywhere, 1e-12)).sum()))
    return numpy.array(found)
