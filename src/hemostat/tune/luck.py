"""Luck: how likely it is that the winner of a study is not the best, from runs of the same parameters."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

NUM_DRAWS: Final = 20_000  # the chances are then known to within 0.7 points (two standard errors at 50 %)


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What repeated runs say about one configuration.

    Attributes:
        name: the configuration, such as the number of its first trial.
        mean: mean objective over its seeds, lower is better.
        standard_error: of that mean, in the unit of the objective.
        num_seeds: how many runs it has had.
        best_chance: chance, 0 to 1, that none of the others is truly better.
    """

    name: int
    mean: float
    standard_error: float
    num_seeds: int
    best_chance: float


def seed_noise(scores: Mapping[int, Sequence[float]]) -> float | None:
    """Standard deviation between runs of one configuration with different seeds, pooled over configurations.

    Args:
        scores: for each configuration the objectives of its runs.

    Returns:
        In the unit of the objective; None where no configuration has run twice.

    Source: pooled variance, sum((x - mean)^2) / sum(n - 1), over all configurations that ran more than once.

    Examples:
        >>> round(seed_noise({0: [1.0, 3.0], 1: [2.0, 4.0], 2: [9.0]}), 4), seed_noise({0: [1.0]})
        (1.4142, None)
    """
    repeated = [list(runs) for runs in scores.values() if len(runs) > 1]
    freedom = sum(len(runs) - 1 for runs in repeated)
    if not freedom:
        return None
    squares = sum(statistics.variance(runs) * (len(runs) - 1) for runs in repeated)
    return math.sqrt(squares / freedom)


def standings(scores: Mapping[int, Sequence[float]], noise: float, seed: int = 0) -> list[Standing]:
    """Rank configurations and say how sure that ranking is.

    Each true mean is drawn from a normal distribution around the measured one, with the standard error
    noise / sqrt(runs); `best_chance` counts how often a configuration comes first. All configurations that
    compete belong in `scores`: the best of many measured once looks better than it is.

    Args:
        scores: for each configuration the objectives of its runs, lower is better, all finite.
        noise: standard deviation between seeds, in the unit of the objective, as of `seed_noise`.
        seed: of the draws.

    Returns:
        Best mean first.

    Source: Monte Carlo over normal posteriors with a flat prior; measured scores are independent.

    Examples:
        >>> near, far = standings({7: [1.00, 1.02], 3: [1.50]}, noise=0.02)
        >>> near.name, near.best_chance, far.best_chance
        (7, 1.0, 0.0)
    """
    names = sorted(scores, key=lambda name: (statistics.fmean(scores[name]), name))
    means = [statistics.fmean(scores[name]) for name in names]
    errors = [noise / math.sqrt(len(scores[name])) for name in names]
    # what lies eight errors behind the best cannot win a draw and would only cost time
    behind = [mean - 8 * error > means[0] + 8 * errors[0] for mean, error in zip(means, errors, strict=True)]
    rivals = [place for place, hopeless in enumerate(behind) if not hopeless]
    rng = random.Random(seed)
    wins = dict.fromkeys(range(len(names)), 0)
    for _ in range(NUM_DRAWS if len(rivals) > 1 else 0):
        wins[min(rivals, key=lambda place: rng.gauss(means[place], errors[place]))] += 1
    if len(rivals) == 1:
        wins[rivals[0]] = NUM_DRAWS
    return [
        Standing(
            name=name,
            mean=means[place],
            standard_error=errors[place],
            num_seeds=len(scores[name]),
            best_chance=wins[place] / NUM_DRAWS,
        )
        for place, name in enumerate(names)
    ]
