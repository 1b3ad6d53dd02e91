"""`gp`: the configuration from which a model of all values, at all rungs, expects most."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

from hemostat.tune.gaussian_process import GaussianProcess
from hemostat.tune.samplers.taken import Taken
from hemostat.tune.space import Choice, Space
from hemostat.tune.trial import Configuration, History, Trial

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

_MAX_SEEN: Final = 90  # values that the model is given; its cost grows with their cube
_MAX_LISTED: Final = 1000  # a space of fewer configurations is looked at whole
_NUM_DRAWN: Final = 100
_NUM_BEST: Final = 3  # whose neighbourhood is looked at
_STEPS: Final = (0.3, 0.1, 0.03)  # of the unit cube


class Gp:
    """Bayesian optimisation with a Gaussian process over the parameters and the position in the run.

    Values of all rungs are put in one order and replaced by the normal scores of their places, so that neither their
    unit nor a diverged run matters. The position is one more dimension; what is predicted is the end of the run.
    The first proposals, three more than there are parameters, are drawn evenly.

    Source: Jones, Schonlau and Welch, Efficient Global Optimization, 1998 (expected improvement); Swersky, Snoek and
    Adams, Multi-Task Bayesian Optimization, NIPS 2013 (cheap and full runs in one process).
    """

    name = "gp"

    def __init__(self) -> None:
        self._taken = Taken()

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """The candidate with the highest expected improvement at the end of the run."""
        candidates = self.candidates(space, history, rng)
        if not candidates:
            return None
        if len(history.trials) < len(space.parameters) + 3:
            return rng.choice(candidates)
        gains = expected_gains(space, history, candidates)
        return (
            rng.choice(candidates)
            if gains is None
            else candidates[max(range(len(gains)), key=gains.__getitem__)]
        )

    def candidates(self, space: Space, history: History, rng: random.Random) -> list[Configuration]:
        """All that has not been tried in a small space, else random ones and the neighbours of the best."""
        self._taken.update(space, history)
        tried = self._taken.keys
        if space.num_configs is not None and space.num_configs <= _MAX_LISTED:
            return [config for config in space.configs() if space.key(config) not in tried]
        found = [space.sample(rng) for _ in range(_NUM_DRAWN)]
        if len(history.trials) >= len(space.parameters) + 3:
            for trial in best_trials(history, _NUM_BEST):
                for step in _STEPS:
                    found += space.neighbours(trial.config, step)
                found += [_moved(space, trial.config, step, rng) for step in _STEPS for _ in range(8)]
        fresh = {
            space.key(config): config for config in found if not space.constraints or space.allows(config)
        }
        return [config for key, config in fresh.items() if key not in tried]


def best_trials(history: History, count: int) -> list[Trial]:
    """Those that came furthest, the best first; failed ones left out."""
    ranked: dict[int, Trial] = {}
    for at in reversed(history.rungs):
        for score, trial in history.at_rung(at):
            if len(ranked) == count:
                return list(ranked.values())
            if score < math.inf:
                ranked.setdefault(trial.number, trial)
    return list(ranked.values())


def expected_gains(space: Space, history: History, candidates: Sequence[Configuration]) -> Array | None:
    """Expected improvement of each candidate on the best end of a run, in normal scores.

    Returns:
        None where fewer than three trials have a value.
    """
    import numpy as np

    seen = _seen(history)
    if len(seen) < 3:
        return None
    last = history.rungs[-1]
    unordered = np.array(
        [isinstance(each, Choice) and not each.ordered for each in space.parameters] + [False]
    )
    points = np.array([_place(space, history, trial.config, at) for _, trial, at in seen])
    process = GaussianProcess(points, _normal_scores([score for score, _, _ in seen]), unordered)
    scored = {trial.number for _, trial, _ in seen}
    waiting = [t for t in history.trials if t.outcome is None and t.number not in scored]
    if waiting:
        process.expect(np.array([_place(space, history, trial.config, last) for trial in waiting]))
    ends = np.array([_place(space, history, trial.config, last) for _, trial, _ in seen])
    best = process.predict(ends)[0].min()
    mean, spread = process.predict(np.array([_place(space, history, config, last) for config in candidates]))
    return expected_improvement(best - mean, spread)


def expected_improvement(gain: Array, spread: Array) -> Array:
    """Mean of what is above 0 of a normal variable.

    Source: Jones, Schonlau and Welch, 1998, equation 15.
    """
    import numpy as np

    ratio = gain / spread
    density = np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in ratio])
    result: Array = spread * (ratio * below + density)
    return result


def _moved(space: Space, config: Configuration, step: float, rng: random.Random) -> Configuration:
    """A configuration nearby in all parameters."""
    return space.decode([min(1.0, max(0.0, unit + rng.gauss(0.0, step))) for unit in space.encode(config)])


def _seen(history: History) -> list[tuple[float, Trial, int]]:
    """Score, trial and position: for each trial its first and its last rung; of too many, the late and the good."""
    rungs = set(history.rungs)
    seen = []
    for trial in history.trials:
        passed = [point.at for point in trial.points if point.at in rungs] or [history.rungs[0]]
        for at in sorted({passed[0], passed[-1]}):
            score = history.score(trial, at)
            if score is not None:
                seen.append((score, trial, at))
    if len(seen) <= _MAX_SEEN:
        return seen
    seen.sort(key=lambda each: (-each[2], each[0], each[1].number))
    kept, rest = seen[: _MAX_SEEN * 2 // 3], seen[_MAX_SEEN * 2 // 3 :]
    stride = len(rest) / (_MAX_SEEN - len(kept))
    return kept + [rest[int(index * stride)] for index in range(_MAX_SEEN - len(kept))]


def _place(space: Space, history: History, config: Configuration, at: int) -> tuple[float, ...]:
    """The unit cube, and the logarithm of the position from the first rung, 0, to the end, 1."""
    first, last = history.rungs[0], history.rungs[-1]
    late = math.log(at / first) / math.log(last / first) if last > first else 0.0
    return (*space.encode(config), late)


def _normal_scores(scores: Sequence[float]) -> Array:
    """Of the places in the order; equal scores share the middle of their places."""
    import numpy as np

    values = np.array(scores)
    ordered = np.sort(values)
    places = (
        np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    ) / 2
    normal = NormalDist()
    return np.array([normal.inv_cdf(place / len(values)) for place in places])
