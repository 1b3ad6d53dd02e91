"""Savings: what the full grid, the grid in random order and random search would have cost on a study's own curves."""

from __future__ import annotations

import statistics
from typing import Final

import msgspec

from hemostat.errors import FieldError
from hemostat.tune.trial import History

SAME: Final = 0.001  # a value within 0.1 % of the best counts as found; the protocol of bench/tune.py


class Savings(msgspec.Struct, frozen=True, kw_only=True):
    """Device time of four ways to the same best value.

    Attributes:
        spent_s: seconds of all stretches of this study, added over its workers.
        full_run_s: seconds of one whole run: the median of its training, and one start.
        num_configs: how many configurations the others would run.
        grid_s: every one of them to its end.
        random_order_s: expected, in random order, until the first within 0.1 % of the best.
        random_search_s: expected, drawing with the same chance of success each time.
    """

    spent_s: float
    full_run_s: float
    num_configs: int
    grid_s: float
    random_order_s: float
    random_search_s: float


def savings(history: History, grid_size: int | None = None) -> Savings | None:
    """Replay the other ways on the trials that this study made.

    The pool is this study's own trials. A sampler looks where it is good, so the pool holds more good ones than a
    grid would: the figures for the others are too low rather than too high. Trials that never reached the end count
    as misses.

    Args:
        history: of the study.
        grid_size: configurations of the grid it replaces; None = as many as this study tried.

    Returns:
        None where no trial has reached the end of its run.

    Raises:
        FieldError: a grid of no configuration.

    Source: of n items in random order of which m are hits, the first hit is expected at place (n + 1) / (m + 1); of
        draws with replacement at n / m.

    Examples:
        >>> from hemostat.tune.trial import Point, Trial
        >>> trials = tuple(
        ...     Trial(number=n, config={}, origin="random", points=(Point(at=9, value=v, time_s=60.0),), time_s=60.0)
        ...     for n, v in enumerate([0.5, 0.4, 0.3])
        ... )
        >>> each = savings(History(trials=trials, sign=1, rungs=(9,)))
        >>> each.grid_s, each.random_order_s, each.random_search_s
        (180.0, 120.0, 180.0)
    """
    if grid_size is not None and grid_size < 1:
        raise FieldError(
            "grid_size", grid_size, "must be 1 or more", "Leave it out for the study's own size."
        )
    end = history.rungs[-1]
    finals = [score for score, _ in history.at_rung(end) if score < float("inf")]
    if not finals:
        return None
    whole = [trial for trial in history.trials if any(point.at == end for point in trial.points)]
    # a promoted trial was started more than once, a run of a grid once
    start_s = max(0.0, min(trial.time_s - trial.points[-1].time_s for trial in whole))
    full_run_s = start_s + statistics.median(trial.points[-1].time_s for trial in whole)
    best = min(finals)
    hits = sum(score <= best + SAME * abs(best) for score in finals)
    tried = len(history.trials)
    num_configs = grid_size or tried
    num_hits = max(1.0, hits / tried * num_configs)
    return Savings(
        spent_s=sum(trial.time_s for trial in history.trials),
        full_run_s=full_run_s,
        num_configs=num_configs,
        grid_s=num_configs * full_run_s,
        random_order_s=(num_configs + 1) / (num_hits + 1) * full_run_s,
        random_search_s=num_configs / num_hits * full_run_s,
    )
