"""Stopping: the study ends by itself once it has looked long enough, and looking longer has brought nothing."""

from __future__ import annotations

import math
from typing import Final

from hemostat.tune.space import Space
from hemostat.tune.trial import History

LEAST_RUNS: Final = 10
RUNS_PER_PARAMETER: Final = 5
IDLE_RUNS: Final = 5


def done(space: Space, history: History) -> str | None:
    """Tell whether the study should end.

    Training is counted in whole runs, what was stopped early with its share. A study needs `LEAST_RUNS` and
    `RUNS_PER_PARAMETER` more for each parameter; then it ends as soon as the trials that began after the best one
    have taken `IDLE_RUNS` and none of them was better.

    Source: measured with bench/tune.py on its train half, where this found the grid's best as often as rules on the
    expected improvement of the model and stopped in less than half the time. For the form, ten runs per parameter:
    Loeppky, Sacks and Welch, Choosing the Sample Size of a Computer Experiment, Technometrics 2009.

    Args:
        space: what may be chosen.
        history: all trials.

    Returns:
        The reason in one sentence; None while the study should go on.
    """
    last = history.rungs[-1]
    ended = [trial for trial in history.trials if trial.position >= last]
    board = history.at_rung(last)
    if not ended or board[0][0] == math.inf:
        return None
    run_s = sum(trial.points[-1].time_s for trial in ended) / len(ended)
    if run_s <= 0:
        return None
    best = board[0][1].number
    spent = {trial.number: trial.points[-1].time_s / run_s for trial in history.trials if trial.points}
    runs = sum(spent.values())
    idle = sum(share for number, share in spent.items() if number > best)
    if runs < LEAST_RUNS + RUNS_PER_PARAMETER * len(space.parameters) or idle < IDLE_RUNS:
        return None
    return (
        f"nothing better is expected: training worth {runs:.0f} whole runs, enough for {len(space.parameters)} "
        f"parameters, and of that {idle:.0f} after trial {best}, the best, began"
    )
