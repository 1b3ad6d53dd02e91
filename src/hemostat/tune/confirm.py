"""Confirm: the best trials of a study again with other seeds, as a small study of its own, to tell skill from luck."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from hemostat.errors import FieldError
from hemostat.launch import Job
from hemostat.tune.space import Choice, Space
from hemostat.tune.trial import Configuration, History, Trial
from hemostat.tune.trial_jobs import TrialJobs
from hemostat.tune.workers import Order

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


class RepeatedJobs:
    """Jobs that run an old trial's configuration with a new seed, for a study over `confirm_space`.

    Args:
        jobs: those of the first study.
        configs: configuration of each contender, by its number in the first study.

    Attributes:
        can_pause, metric: those of `jobs`.
    """

    def __init__(self, jobs: TrialJobs, configs: Mapping[int, Configuration]) -> None:
        self._jobs = jobs
        self._configs = dict(configs)
        self.can_pause = jobs.can_pause
        self.metric = jobs.metric

    def job(self, order: Order, run_dir: Path, *, resumes: bool) -> Job:
        """See `TrialJobs.job`; the order's own seed differs from trial to trial."""
        return self._jobs.job(self._real(order), run_dir, resumes=resumes)

    def pause_at(self, order: Order) -> int:
        """See `TrialJobs.pause_at`."""
        return self._jobs.pause_at(self._real(order))

    def _real(self, order: Order) -> Order:
        return msgspec.structs.replace(order, config=self._configs[order.config[_TRIAL]])


def seed_scores(first: History, repeats: Sequence[History]) -> dict[int, list[float]]:
    """Scores at the end of the run of every trial of the first study, with those of its repeats.

    Args:
        first: the study.
        repeats: the studies over a `confirm_space` of it.

    Returns:
        By the number of the trial, lower is better; only numbers, no failures.
    """
    end = first.rungs[-1]
    scores = {trial.number: [score] for score, trial in first.at_rung(end) if score < math.inf}
    for history in repeats:
        for score, trial in history.at_rung(end):
            if score < math.inf:
                scores.setdefault(trial.config[_TRIAL], []).append(score)
    return scores
