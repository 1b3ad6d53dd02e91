"""What a study runs: a task with its recipe, or any command line; one plain value, which the study's journal keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from hemostat.cli.planning import task_values
from hemostat.cli.recipe import base_of_task
from hemostat.config import Config, decode, merge, parse_overrides
from hemostat.errors import FieldError, UsageError
from hemostat.plan import price_usd_per_hour
from hemostat.recipe import Base, Devices, convert
from hemostat.track import list_runs
from hemostat.tune import default_space, param_grid, samplers, trial_jobs

_HIGHER = (
    "acc",
    "f1",
    "auc",
    "bleu",
    "rouge",
    "precision",
    "recall",
    "r2",
    "score",
    "reward",
    "iou",
    "map",
    "dice",
)
_LOWER = (
    "loss",
    "err",
    "perplexity",
    "ppl",
    "nll",
    "wer",
    "cer",
    "mse",
    "mae",
    "rmse",
    "bpc",
    "bpb",
    "bits",
    "fid",
)
Direction = Literal["min", "max"]


class LawSettings(Config, frozen=True, kw_only=True):
    """`[tune.law]`: a start from smaller runs of a script.

    Attributes:
        runs: CSV file with the columns num_params, num_tokens, lr, batch, loss.
        num_params: size of the model to tune.
        num_tokens: data that a run of it sees, in the unit of the file.
        names: of the learning rate and of the batch in the space.
    """

    runs: str
    num_params: float
    num_tokens: float
    names: tuple[str, str] = ("lr", "batch")


class TuneSettings(Config, frozen=True, kw_only=True):
    """`[tune]` of the settings; nobody has to set any of it.

    Attributes:
        sampler: what chooses the next configuration.
        pruner: what decides how far a trial runs.
        seed: of all that is drawn.
        name: of the study; None makes one.
        length: where a run of a script ends, in the unit of its metric lines; None: only its last value counts.
        every: distance between two of its evaluations, in the same unit.
        can_pause: a script leaves and goes on when `hemostat.track.control()` asks for it; None looks into it.
        law: smaller runs that foretell where to start.
    """

    sampler: str = samplers.DEFAULT
    pruner: str = "promotion"
    seed: int = 0
    name: str | None = None
    length: int | None = None
    every: int = 1
    can_pause: bool | None = None
    law: LawSettings | None = None


class Asked(Config, frozen=True, kw_only=True):
    """What a study runs, as its journal keeps it.

    Attributes:
        task: "file.py:Class"; empty for a script.
        command: words of a script, with its placeholders.
        values: settings of a task's runs, and of the price.
        metric: as it was typed, perhaps with "min:" or "max:".
        nproc: processes of one trial.
        is_grids: the space is several grids of scikit-learn's form.
        tune: the `[tune]` table.
    """

    task: str = ""
    command: tuple[str, ...] = ()
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    metric: str | None = None
    nproc: int = 1
    is_grids: bool = False
    tune: TuneSettings


class Setup(NamedTuple):
    """What is needed to run a study's trials.

    Attributes:
        jobs: what a trial runs.
        metric: name of the objective.
        direction: whether a low or a high value is better.
        length: where a run ends.
        step: distance between two evaluations.
        only_end: nobody said how long a run is.
        settings_of: all settings of a configuration, to train with; a script has none.
        base: what works on one device; None for a script.
    """

    jobs: trial_jobs.TrialJobs
    metric: str
    direction: Direction
    length: int
    step: int
    only_end: bool
    settings_of: Callable[[Mapping[str, Any]], dict[str, Any]]
    base: Base | None = None


def read_words(words: list[str]) -> tuple[str, tuple[str, ...]]:
    """(task, command) of what stands on the command line; one of them is empty.

    Examples:
        >>> read_words(["digits.py:Digits"]), read_words(["python", "train.py", "--lr", "{lr}"])
        (('digits.py:Digits', ()), ('', ('python', 'train.py', '--lr', '{lr}')))
    """
    if len(words) == 1 and (words[0].endswith(".py") or ".py:" in words[0]):
        return words[0], ()
    return "", tuple(words)


def direction_of(metric: str, told: str | None = None) -> Direction:
    """Whether a low or a high value of a metric is better, by its name.

    Args:
        metric: its name.
        told: "min" or "max" where the user or the task says it.

    Raises:
        FieldError: the name does not tell.

    Examples:
        >>> direction_of("val_loss"), direction_of("eval/accuracy"), direction_of("x", "max")
        ('min', 'max', 'max')
    """
    if told is not None:
        if told not in ("min", "max"):
            raise FieldError("metric", f"{told}:{metric}", "begins with no direction", f"Write max:{metric}.")
        return "min" if told == "min" else "max"
    if any(word in metric.lower() for word in _LOWER):
        return "min"
    if any(word in metric.lower() for word in _HIGHER):
        return "max"
    raise FieldError(
        "metric", metric, "does not say what is better", f"Write --metric min:{metric} or max:{metric}."
    )


def price_of(values: Mapping[str, Any]) -> float | None:
    """Dollars of an hour of all devices together, from `train.usd_per_hour` or `train.instance`."""
    engine = values.get("train", {})
    if engine.get("usd_per_hour") is not None:
        return float(engine["usd_per_hour"])
    return price_usd_per_hour(engine["instance"]).usd_per_hour if engine.get("instance") else None


def seconds_per_unit(asked: Asked, runs: Path) -> float | None:
    """Seconds of a sample in the newest whole run of the same task, start included; None where there is none."""
    if not asked.task:
        return None
    for record in list_runs(runs):
        if record.state != "done":
            continue
        task = record.headline.get("task")
        name = task.get("name") if isinstance(task, dict) else task
        samples, spent_s = record.summary.get("samples"), record.summary.get("spent_s")
        if name and str(name).rpartition(":")[2] == asked.task.rpartition(":")[2] and samples and spent_s:
            return float(spent_s) / float(samples)
    return None


def setup(asked: Asked, names: tuple[str, ...], num_workers: int) -> Setup:
    """Make the jobs of a study and find out how long a run is.

    Args:
        asked: what is to be run.
        names: of the space's parameters.
        num_workers: trials side by side, which share the price.

    Raises:
        UsageError: a task, a setting or a placeholder that cannot be meant.
    """
    told, colon, metric = (asked.metric or "").rpartition(":")
    if colon and not metric:
        raise FieldError("metric", asked.metric, "names no metric", f"Write --metric {asked.metric}val_loss.")
    if asked.task:
        return _of_task(asked, metric, told or None, num_workers)
    metric = metric or "val_loss"
    tune = asked.tune
    can_pause = trial_jobs.asks_control(asked.command) if tune.can_pause is None else tune.can_pause
    only_end = tune.length is None
    own = param_grid.run_config if asked.is_grids else dict
    used, pauses = tuple(own(dict.fromkeys(names))), can_pause and not only_end
    jobs = trial_jobs.ScriptJobs(asked.command, used, asked.nproc, metric, can_pause=pauses, own=own)
    length, step = (1, 1) if tune.length is None else (tune.length, tune.every)
    return Setup(jobs, metric, direction_of(metric, told or None), length, step, only_end, lambda config: {})


def _of_task(asked: Asked, metric: str, told: str | None, num_workers: int) -> Setup:
    base = base_of_task(asked.task, task_values(asked.values))
    metric = metric or base.monitor
    told = told or (base.metric_mode if metric == base.monitor else None)
    direction = direction_of(metric, told)
    devices = devices_of(asked)
    recipe = convert(base, devices)
    if not recipe.total_samples:
        raise FieldError(
            "total_samples", 0, "is not known: a study compares runs of one length", "Set epochs."
        )
    given = _of_trials(asked.values, metric, direction, base)
    price = price_of(asked.values)
    if price is not None:
        given["train"] = {**given.get("train", {}), "usd_per_hour": price / num_workers}

    def own_settings(config: Mapping[str, Any]) -> dict[str, Any]:
        own = param_grid.run_config(config) if asked.is_grids else config
        return default_space.settings_of(recipe, own)

    def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
        return merge(given, _nested(own_settings(config)))

    def rhythm_of(config: Mapping[str, Any]) -> tuple[int, int]:
        own = own_settings(config)
        now = {name: own[name] for name in Devices.__struct_fields__ if name in own}
        moved = {name: own[name] for name in Base.__struct_fields__ if name in own}
        with contextlib.suppress(UsageError):  # a configuration that no run can have says so itself
            of_trial = convert(
                msgspec.structs.replace(base, **moved), msgspec.structs.replace(devices, **now)
            )
            return of_trial.global_batch, of_trial.eval_every_steps
        return recipe.global_batch, recipe.eval_every_steps

    file, colon, name = asked.task.rpartition(":") if ":" in Path(asked.task).name else (asked.task, "", "")
    task = f"{Path(file).resolve()}{colon}{name}"
    jobs = trial_jobs.TaskJobs(task, asked.nproc, metric, settings_of, rhythm_of)
    step = max(1, recipe.eval_every_steps * recipe.global_batch)
    return Setup(jobs, metric, direction, recipe.total_samples, step, False, settings_of, base)


def devices_of(asked: Asked) -> Devices:
    """The devices of one trial, with the batch that the settings give them."""
    given = {name: asked.values[name] for name in Devices.__struct_fields__ if name in asked.values}
    return decode(Devices, {**given, "num_ranks": asked.nproc})


def _of_trials(values: Mapping[str, Any], metric: str, direction: str, base: Base) -> dict[str, Any]:
    """What every trial is given: the caps are the study's, and its devices are its own."""
    kept = {name: value for name, value in values.items() if name not in ("plan", "launch", "num_ranks")}
    engine = {
        name: value
        for name, value in values.get("train", {}).items()
        if name not in ("max_hours", "max_usd", "usd_per_hour", "instance", "resume", "seed")
    }
    kept["train"] = {"keep": 1, **engine}
    if metric != base.monitor:
        kept |= {"monitor": metric, "metric_mode": direction}
    return kept


def _nested(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as settings: "train.max_skips" is a setting of a section."""
    tree: dict[str, Any] = {}
    for name, value in config.items():
        node = parse_overrides([f"{name}=0"])
        *parents, leaf = name.split(".")
        inner = node
        for parent in parents:
            inner = inner[parent]
        inner[leaf] = value
        tree = merge(tree, node)
    return tree
