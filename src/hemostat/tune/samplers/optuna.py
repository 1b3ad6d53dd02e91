"""Optuna's samplers (TPE, Gaussian process), fed from the history and kept in memory; needs the extra `tune`."""

from __future__ import annotations

import importlib.util
import math
import random
from typing import Any, Final

from hemostat.errors import MissingExtraError
from hemostat.tune.samplers.taken import Taken
from hemostat.tune.space import Choice, Integer, Parameter, Space
from hemostat.tune.trial import Configuration, History

NUM_STARTUP: Final = 10
_NUM_TRIES: Final = 8  # repeats before a random configuration stands in


class Optuna:
    """One of Optuna's samplers as a proposer; its storage, pruners and loop are not used.

    Every parameter is told by its place in the unit cube, or by its index where it has no order. Failures through
    the parameters are told as the worst value, because Optuna leaves failed trials out of its model; trials without
    a result at the rung of the model are told as running.

    Args:
        name: "optuna" (TPE) or "optuna-gp" (Gaussian process, which needs torch and scipy).

    Raises:
        MissingExtraError: Optuna, or what its sampler needs, is not installed.
    """

    def __init__(self, name: str = "optuna") -> None:
        self.name = name
        try:
            import optuna
        except ImportError:
            raise MissingExtraError("optuna", extra="tune", purpose=f"the sampler {name}") from None
        for package in ("torch", "scipy") if name == "optuna-gp" else ():
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(package, extra="tune", purpose=f"the sampler {name}")
        self._optuna = optuna
        self._taken = Taken()
        self._study: Any = None
        self._model: tuple[int, float] | None = None
        self._told: list[float | None] = []

    def propose(self, space: Space, history: History, rng: random.Random) -> Configuration | None:
        """A configuration that no trial has had; None when all have been had."""
        self._taken.update(space, history)
        if space.num_configs is not None and len(self._taken.keys) >= space.num_configs:
            return None
        self._feed(space, history)
        for _ in range(_NUM_TRIES):
            config = self._asked(space, rng.getrandbits(32))
            if space.allows(config) and space.key(config) not in self._taken.keys:
                return config
        return self._taken.draw(space, rng)

    def _feed(self, space: Space, history: History) -> None:
        """Tell what is new; begin again where the rung of the model, or what stands for a failure, has changed."""
        at = _rung(history)
        scores = [history.score(trial, at) for trial in history.trials]
        finite = [score for score in scores if score is not None and score < math.inf]
        model = at, max(finite, default=0.0)
        told = [score if score is None else min(score, model[1]) for score in scores]
        kept = self._taken.num_kept
        gone = any(old is not None and old != new for old, new in zip(self._told, told, strict=False))
        if kept == 0 or model != self._model or gone or len(self._told) > len(told):
            self._optuna.logging.disable_default_handler()
            self._study = self._optuna.create_study(storage=self._optuna.storages.InMemoryStorage())
            self._study.ask()  # trial 0 is the one that is asked for, again and again; its storage wants to know it
            self._told, self._model = [], model
        for number, (old, new) in enumerate(zip(self._told, told, strict=False)):
            if old is None and new is not None:
                self._study.tell(number + 1, new)
        for number in range(len(self._told), len(told)):
            self._study.add_trial(self._frozen(space, history.trials[number].config, told[number]))
        self._told = told

    def _frozen(self, space: Space, config: Configuration, value: float | None) -> Any:
        states = self._optuna.trial.TrialState
        known = [parameter for parameter in space.parameters if parameter.name in config]
        return self._optuna.trial.create_trial(
            state=states.RUNNING if value is None else states.COMPLETE,
            value=value,
            params={parameter.name: _told(parameter, config[parameter.name]) for parameter in known},
            distributions={parameter.name: self._distribution(parameter) for parameter in known},
        )

    def _distribution(self, parameter: Parameter) -> Any:
        kinds = self._optuna.distributions
        if isinstance(parameter, Choice) and not parameter.ordered:
            return kinds.CategoricalDistribution(tuple(range(len(parameter.values))))
        if isinstance(parameter, Choice):
            return kinds.IntDistribution(0, len(parameter.values) - 1)
        if isinstance(parameter, Integer):
            return kinds.IntDistribution(parameter.low, parameter.high, log=parameter.scale == "log")
        return kinds.FloatDistribution(0.0, 1.0)

    def _asked(self, space: Space, seed: int) -> Configuration:
        sampler, study = self._sampler(seed), self._study
        trial = study.get_trials(deepcopy=False)[0]
        trial.system_attrs = {}  # what the last call has left there would count as a running trial
        kinds = {parameter.name: self._distribution(parameter) for parameter in space.parameters}
        always = {each.name for each in space.parameters if not each.when and not kinds[each.name].single()}
        found = sampler.sample_relative(
            study, trial, {name: kinds[name] for name in space.names if name in always}
        )
        full = {}
        for parameter in space.parameters:
            name = parameter.name
            place = found.get(name)
            if place is None:
                place = sampler.sample_independent(study, trial, name, kinds[name])
            full[name] = _value(parameter, place)
        return space.complete(full)

    def _sampler(self, seed: int) -> Any:
        """A new one each time, so that nothing but the history and the seed decides."""
        if self.name == "optuna-gp":
            return self._optuna.samplers.GPSampler(seed=seed, n_startup_trials=NUM_STARTUP)
        return self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=NUM_STARTUP)


def _rung(history: History) -> int:
    """The highest one with as many results as the sampler needs to begin; the first one before that."""
    enough = [at for at in history.rungs if len(history.at_rung(at)) >= NUM_STARTUP]
    return enough[-1] if enough else history.rungs[0]


def _rising(parameter: Choice) -> list[Any]:
    return sorted(parameter.values, key=parameter.encode) if parameter.ordered else list(parameter.values)


def _told(parameter: Parameter, value: Any) -> Any:
    if isinstance(parameter, Choice):
        return _rising(parameter).index(parameter.checked(value))
    return int(value) if isinstance(parameter, Integer) else min(max(parameter.encode(value), 0.0), 1.0)


def _value(parameter: Parameter, place: Any) -> Any:
    if isinstance(parameter, Choice):
        return _rising(parameter)[place]
    return int(place) if isinstance(parameter, Integer) else parameter.decode(place)
