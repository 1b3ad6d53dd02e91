"""Failures: which trials are tried again, and when a study ends because every trial fails in one way."""

from __future__ import annotations

import math
import re

from hemostat.tune.trial import RETRIED, TEACHES, Outcome, Point, Trial

MAX_RETRIES = 3
NUM_IDENTICAL = 4
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_WORDS: dict[Outcome, str] = {
    "nan": "gave NaN",
    "diverged": "diverged",
    "out_of_memory": "ran out of memory",
    "timeout": "timed out",
    "crash": "crashed",
}


def can_retry(trial: Trial) -> bool:
    """Tell whether a trial that the machine may have failed is tried again; a retry costs the trial nothing.

    Examples:
        >>> crashed = Trial(number=0, config={}, origin="random", outcome="crash", num_failures=3)
        >>> can_retry(crashed), can_retry(Trial(number=0, config={}, origin="random", outcome="nan"))
        (True, False)
    """
    return trial.outcome in RETRIED and trial.num_failures <= MAX_RETRIES


class Streak:
    """Identical failures in a row, as a study counts them.

    A crash or a time-out counts once for each trial; each time where all trials so far have failed in this way.
    Parameters that give NaN or need too much memory teach the sampler; they end a study only where no trial at all
    has given a value. A preemption says nothing about the study.
    """

    def __init__(self) -> None:
        self._same: tuple[Outcome, str] | None = None  # as the latest one said it
        self._kind: tuple[Outcome, str] | None = None
        self._trials: list[int] = []
        self._any_value = False

    def measured(self, point: Point) -> None:
        """Some trial has been evaluated; the untrained model is no success."""
        self._any_value |= point.at > 0 and math.isfinite(point.value)

    def ended(self, trial: Trial) -> None:
        """A stretch has ended; `trial` is as it is now."""
        if trial.outcome == "preempted":
            return
        if trial.outcome not in RETRIED | TEACHES:
            self._same, self._trials = None, []
            return
        kind = (trial.outcome, _NUMBERS.sub("0", trial.why))  # 91 GiB and 87 GiB are one reason
        if self._same is None or kind != self._kind:
            self._kind, self._trials = kind, []
        self._same = (trial.outcome, trial.why)
        self._trials.append(trial.number)

    def reason(self, num_trials: int) -> str | None:
        """Why the study ends; None while it goes on.

        Args:
            num_trials: that have started so far.
        """
        if self._same is None:
            return None
        outcome, why = self._same
        if self._any_value and outcome in TEACHES:
            return None
        count = len(set(self._trials))
        if count == num_trials and not self._any_value:
            count = len(self._trials)
        if count < NUM_IDENTICAL:
            return None
        said = f": {why.rstrip('.')}" if why else ""
        hint = (
            "Start from parameters that train, or make the space smaller"
            if outcome in TEACHES
            else "Run one trial by hand and mend what it says"
        )
        return f"{count} attempts in a row {_WORDS[outcome]}{said}. {hint}."
