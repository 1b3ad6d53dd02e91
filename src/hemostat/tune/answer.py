"""Answer: what a study found, how sure that is, what decided it, and what it cost beside the other ways."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hemostat.tune.confirm import seed_scores
from hemostat.tune.importance import Importance, importance
from hemostat.tune.luck import Standing, seed_noise, standings
from hemostat.tune.savings import Savings, savings
from hemostat.tune.trial import History, Outcome, Trial

if TYPE_CHECKING:
    from hemostat.tune.space import Space
    from hemostat.tune.state import State


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A study as it stands.

    Attributes:
        best: the trial that is recommended; None where none has a value yet.
        value: its objective, as it was measured; the mean over its seeds where it was repeated.
        at: the position where `value` was measured.
        is_final: `at` is the end of a run.
        outcomes: how many trials ended how; "running" for those that have not.
        clock_s: wall time of the study.
        busy_s: seconds of all trials.
        usd: dollars of all trials; 0 without a price.
        unspent: what is left of the budget, in words; empty without a cap.
        ending: why it ended; None while it goes on.
        noise: standard deviation of the objective between seeds; None where nothing was repeated, 0 where the seed
            changed nothing.
        standings: how sure the ranking is, best first; empty without `noise`.
        importance: of each parameter; empty with few trials.
        savings: what other ways would have cost; None where no trial has reached the end.
    """

    best: Trial | None
    value: float | None
    at: int
    is_final: bool
    outcomes: dict[str, int]
    clock_s: float
    busy_s: float
    usd: float
    unspent: str
    ending: str | None
    noise: float | None
    standings: tuple[Standing, ...]
    importance: tuple[Importance, ...]
    savings: Savings | None


def answer(
    space: Space, state: State, repeats: Sequence[History] = (), grid_size: int | None = None
) -> Answer:
    """Sum a study up, while it runs or afterwards.

    Where the best trials were repeated with other seeds, the one with the best mean is recommended, not the one with
    the luckiest run.

    Args:
        space: of the study.
        state: from its journal.
        repeats: its `confirm` studies.
        grid_size: configurations of the grid that it replaces, if there was one.
    """
    history, end = state.history, state.history.rungs[-1]
    scores = seed_scores(history, repeats)
    noise = seed_noise(scores)
    ranking = tuple(standings(scores, noise)) if noise else ()  # equal repeats were one run, not several
    best, at = _best(history)
    value = None if best is None else next(point.value for point in best.points if point.at == at)
    repeated = [each for each in ranking if each.num_seeds > 1]
    if repeated:
        best, at, value = history.trials[repeated[0].name], end, history.sign * repeated[0].mean
    counted: Counter[Outcome | str] = Counter(trial.outcome or "running" for trial in history.trials)
    return Answer(
        best=best,
        value=value,
        at=at,
        is_final=at == end,
        outcomes=dict(counted.most_common()),
        clock_s=state.clock_s,
        busy_s=state.spending.ended_s,
        usd=state.spending.ended_s * state.settings.budget.usd_per_s,
        unspent=state.settings.budget.unspent(state.clock_s, state.spending.ended_s),
        ending=state.ending,
        noise=noise,
        standings=ranking,
        importance=tuple(importance(space, history)),
        savings=savings(history, grid_size),
    )


def _best(history: History) -> tuple[Trial | None, int]:
    """The trial with the best score at the last rung that any trial has reached with a number."""
    for at in reversed(history.rungs):
        for score, trial in history.at_rung(at):
            if score < math.inf:
                return trial, at
    return None, 0
