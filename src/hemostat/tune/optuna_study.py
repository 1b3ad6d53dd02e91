"""A study as an Optuna study in an SQLite file, for optuna-dashboard and whoever has Optuna's tools."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hemostat.errors import FieldError, MissingExtraError, RecordError
from hemostat.tune.parameter import Choice, Integer, Parameter
from hemostat.tune.trial import History, Trial

if TYPE_CHECKING:
    from hemostat.tune.space import Space


def write_optuna(path: Path, name: str, space: Space, history: History) -> int:
    """Write all trials that have ended; what the file held under that name is replaced.

    Optuna knows no paused trial: one that waits at a rung is written as pruned, one that failed as failed, with its
    outcome and reason as user attributes. Parameters that are lists are written as text.

    Args:
        path: of the SQLite file; other studies in it are left alone.
        name: of the study in it.
        space: of the study.
        history: all its trials.

    Returns:
        How many trials were written.

    Raises:
        MissingExtraError: Optuna is not installed.
        FieldError: no trial has ended.
        RecordError: the file cannot be written.
    """
    try:
        import optuna
        from sqlalchemy.exc import SQLAlchemyError
    except ImportError:
        raise MissingExtraError("optuna", extra="tune", purpose="a study for optuna-dashboard") from None
    ended = [trial for trial in history.trials if trial.outcome is not None]
    if not ended:
        raise FieldError("study", name, "has no trial that has ended", "Export it later.")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path.absolute()}")
        if name in {summary.study_name for summary in optuna.get_all_study_summaries(storage)}:
            optuna.delete_study(study_name=name, storage=storage)
        study = optuna.create_study(
            storage=storage, study_name=name, direction="minimize" if history.sign == 1 else "maximize"
        )
        study.add_trials([_frozen(optuna, space, history, trial) for trial in ended])
    except SQLAlchemyError as error:
        raise RecordError(
            f"{path} cannot be written as an Optuna study: {error}. Choose another file."
        ) from None
    return len(ended)


def _frozen(optuna: Any, space: Space, history: History, trial: Trial) -> Any:
    state, end = optuna.trial.TrialState, history.rungs[-1]
    finite = {point.at: point.value for point in trial.points if math.isfinite(point.value)}
    if trial.outcome == "finished" and end in finite:
        kind, value = state.COMPLETE, finite[end]
    elif trial.outcome in ("paused", "stopped"):
        kind, value = state.PRUNED, None
    else:
        kind, value = state.FAIL, None
    parameters = [each for each in space.parameters if each.name in trial.config]
    return optuna.trial.create_trial(
        state=kind,
        value=value,
        params={each.name: _plain(trial.config[each.name]) for each in parameters},
        distributions={each.name: _distribution(optuna, each) for each in parameters},
        intermediate_values=finite,
        user_attrs={
            "trial": trial.number,
            "origin": trial.origin,
            "outcome": trial.outcome,
            "why": trial.why,
            "seconds": trial.time_s,
        },
    )


def _distribution(optuna: Any, parameter: Parameter) -> Any:
    kinds = optuna.distributions
    if isinstance(parameter, Choice):
        return kinds.CategoricalDistribution([_plain(value) for value in parameter.values])
    log = parameter.scale == "log" and parameter.low > 0
    kind = kinds.IntDistribution if isinstance(parameter, Integer) else kinds.FloatDistribution
    return kind(parameter.low, parameter.high, log=log)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, list | tuple) else value
