"""What `hemostat tune` says before a study, and its answer at the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from hemostat.cli.tune_study import Opened
from hemostat.errors import BudgetStop, HemostatError
from hemostat.report import tune_live
from hemostat.tune import Budget, budget, param_grid, parameter, workers
from hemostat.units import format_number, format_seconds, format_usd


def begin_lines(opened: Opened, num_workers: int) -> list[str]:
    """The space, the length of a run, and what the study will cost.

    Raises:
        FieldError: the budget does not pay for one run.
    """
    made, study = opened.setup, opened.study
    lines = [f"study    {opened.name}, {num_workers} trials side by side, {made.direction} of {made.metric}"]
    for each in opened.space.parameters:
        when = f" when {each.when}" if each.when else ""
        lines.append(f"space    {each.name}  {_range(each)}{when}")
    size = opened.space.num_configs
    if size is not None:
        run_s = (study.settings.budget.s_per_unit or 0.0) * made.length
        lines.append(f"space    {size:,} configurations{_all_of_them(opened, run_s)}")
    if made.only_end:
        lines.append("note     no trial is stopped early: say how long a run is, as in --set tune.length=30")
    elif not made.jobs.can_pause:
        lines.append(
            "note     the script does not ask hemostat.track.control(): trials are stopped, not paused"
        )
    return [*lines, f"cost     {_cost(study.settings.budget, made.length, num_workers)}"]


def _all_of_them(opened: Opened, run_s: float) -> str:
    """What training every configuration to its end takes; empty where they are infinite or nothing was measured."""
    if opened.space.num_configs is None or run_s <= 0:
        return ""
    per_hour = opened.study.settings.budget.usd_per_s * 3600
    cost = param_grid.grid_cost(opened.space, run_s, usd_per_hour=per_hour)
    usd = f", {format_usd(cost.usd)}" if cost.usd else ""
    return f"; the whole grid takes {format_seconds(cost.run_s)} of trials{usd}"


def _range(each: parameter.Parameter) -> str:
    if isinstance(each, parameter.Choice):
        return ", ".join(map(str, each.values))
    scale = getattr(each, "scale", "")
    return f"{each.low:g} to {each.high:g}" + (f", {scale}" if scale not in ("", "linear") else "")


def _cost(cap: Budget, length: int, num_workers: int) -> str:
    most = []
    if cap.max_s is not None:
        most.append(format_seconds(cap.max_s))
    if cap.max_usd is not None:
        most.append(format_usd(cap.max_usd))
    said = f"at most {' and '.join(most)}"
    if cap.s_per_unit is None:
        return f"{said}; the first trial tells what a run costs"
    found = budget.estimate(cap, length, num_workers)
    run_usd = f" or {format_usd(found.run_usd)}" if found.run_usd else ""
    return f"{said}; a whole run takes {format_seconds(found.run_s)}{run_usd}: {found.num_runs:,} of them at most"


def answer_values(opened: Opened) -> dict[str, Any]:
    """The answer as plain values."""
    study = opened.study
    best = tune_live.leader(study.history)
    found: dict[str, Any] = {"study": opened.name, "ending": study.ending, "unspent": study.unspent}
    found |= {
        "clock_s": study.clock_s,
        "busy_s": study.busy_s,
        "usd": study.busy_s * study.settings.budget.usd_per_s,
    }
    found |= {"num_trials": len(study.history.trials), "metric": opened.setup.metric, "best": None}
    if best is not None:
        config = study.history.trials[best[0]].config
        found["best"] = {"trial": best[0], "value": best[1], "at": best[2], "config": config}
    return found


def answer_text(opened: Opened, runs: Path) -> str:
    """Best value, its parameters, what is unspent, and how to train with them."""
    study, made = opened.study, opened.setup
    best = tune_live.leader(study.history)
    lines = [tune_live.status_line(study, made.metric)]
    if study.unspent:
        lines.append(f"unspent  {study.unspent}")
    ran_s = [trial.points[-1].time_s for trial in study.history.trials if trial.position >= made.length]
    if grid := _all_of_them(opened, sum(ran_s) / max(1, len(ran_s))):
        lines.append(f"grid     {opened.space.num_configs:,} configurations{grid}")
    if best is None:
        return "\n".join([*lines, "no trial has given a value"])
    trial = study.history.trials[best[0]]
    whole = (
        "" if best[2] >= made.length else f", at {best[2]:,} of {made.length:,}; no trial has reached its end"
    )
    lines.append(
        f"best     {made.metric} {format_number(best[1])}{whole}: trial {trial.number}, by {trial.origin}"
    )
    lines.append(f"         {tune_live.config_text(trial.config)}")
    return "\n".join([*lines, *_how_to_use(opened, runs, trial.number)])


def _how_to_use(opened: Opened, runs: Path, number: int) -> list[str]:
    import tomli_w

    trial = opened.study.history.trials[number]
    if not opened.asked.task:
        order = workers.Order(trial=number, config=trial.config, start=0, until=trial.until, seed=0)
        job = opened.setup.jobs.job(order, runs / f"{opened.name}-t{number:03d}", resumes=False)
        return [f"again    {shlex.join(job.command)}"]
    file = opened.folder / "best.toml"
    values = opened.setup.settings_of(trial.config)
    values.pop("train", None)
    file.write_text(tomli_w.dumps(values), encoding="utf-8")
    return [
        f"toml     {file}",
        f"train    hemostat train {opened.asked.task} --config {file}",
    ]


def status_of(opened: Opened, reason: str) -> int:
    """The exit status: 0 with an answer, 1 with a doubtful one; 5 where the budget, 3 where failures left none."""
    history = opened.study.history
    best = tune_live.leader(history)
    if best is not None and (best[2] == history.rungs[-1] or "budget" not in reason):
        return 1 if "ignores its parameters" in reason else 0
    return BudgetStop.exit_status if "budget" in reason else HemostatError.exit_status
