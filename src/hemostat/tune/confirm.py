"""Confirm: the best trials of a study again with other seeds, as a small study of its own, to tell skill from luck."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from hemostat.errors import FieldError
from hemostat.tune.space import Choice, Space
from hemostat.tune.trial import Configuration, History, Trial
from hemostat.tune.workers import End, Order, Progress, Workers

NUM_TOP: Final = 3
_TRIAL, _SEED = "trial", "seed"


def contenders(history: History, num_top: int = NUM_TOP) -> list[Trial]:
    """The trials whose runs are worth repeating: the best of those that reached the end.

    Args:
        history: of a study.
        num_top: how many at most.

    Raises:
        FieldError: `num_top` below 1, or no trial has reached the end with a number.
    """
    if num_top < 1:
        raise FieldError("num_top", num_top, "must be 1 or more", "Write 3.")
    best = [trial for score, trial in history.at_rung(history.rungs[-1]) if score < math.inf]
    if not best:
        raise FieldError("confirm", 0, "no trial has reached the end of its run", "Let one finish first.")
    return best[:num_top]


def confirm_space(trials: Sequence[Trial], num_seeds: int) -> Space:
    """The space of the repeats: which trial, and which of its new seeds.

    Args:
        trials: as of `contenders`.
        num_seeds: new runs of each.

    Raises:
        FieldError: no new run is asked for.

    Examples:
        >>> trials = [Trial(number=4, config={"lr": 0.1}, origin="kde"), Trial(number=2, config={}, origin="kde")]
        >>> confirm_space(trials, 3).num_configs
        6
    """
    if num_seeds < 1:
        raise FieldError("confirm", num_seeds, "must be 1 or more", "Write --confirm 3.")
    return Space(
        (Choice(_TRIAL, tuple(trial.number for trial in trials)), Choice(_SEED, tuple(range(num_seeds))))
    )


class Repeating:
    """Workers that run an old trial's configuration with a new seed, for a study over `confirm_space`.

    Args:
        workers: what carries the runs out.
        configs: configuration of each contender, by its number in the first study.

    Attributes:
        num_workers, can_pause: those of `workers`.
    """

    def __init__(self, workers: Workers, configs: Mapping[int, Configuration]) -> None:
        self._workers = workers
        self._configs = dict(configs)
        self.num_workers = workers.num_workers
        self.can_pause = workers.can_pause

    def now_s(self) -> float:
        """See `Workers`."""
        return self._workers.now_s()

    def start(self, order: Order) -> None:
        """Begin a run of the contender that the order names; the order's own seed differs from trial to trial."""
        self._workers.start(msgspec.structs.replace(order, config=self._configs[order.config[_TRIAL]]))

    def wait(self, until_s: float | None) -> Progress | End | None:
        """See `Workers`."""
        return self._workers.wait(until_s)

    def stop(self, trial: int) -> None:
        """See `Workers`."""
        self._workers.stop(trial)


def seed_scores(first: History, repeats: History) -> dict[int, list[float]]:
    """Scores at the end of the run of every trial of the first study, with those of its repeats.

    Args:
        first: the study.
        repeats: the study over `confirm_space`.

    Returns:
        By the number of the trial, lower is better; only numbers, no failures.
    """
    end = first.rungs[-1]
    scores = {trial.number: [score] for score, trial in first.at_rung(end) if score < math.inf}
    for score, trial in repeats.at_rung(end):
        if score < math.inf:
            scores.setdefault(trial.config[_TRIAL], []).append(score)
    return scores
