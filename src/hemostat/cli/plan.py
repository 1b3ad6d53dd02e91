"""`hemostat plan`: what fits, how fast, for how many dollars; of a task, a config.json or three numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from hemostat.cli.audit import FILE, calibration_sentence
from hemostat.cli.layout import read_layout
from hemostat.cli.planning import (
    lengths,
    measured,
    of_task,
    profile_of_model,
    read_words,
    sizes_of,
    task_values,
)
from hemostat.cli.recipe import base_of_task
from hemostat.config import merge, parse_overrides, read_toml, to_plain
from hemostat.errors import FieldError, UnknownNameError, UsageError
from hemostat.plan import Choice, Plan, price_usd_per_hour
from hemostat.recipe import Base, Devices, convert
from hemostat.report import draw_plan, plan_text, write_plan_files
from hemostat.units import parse_count, parse_usd

_NOTHING_FITS: Final = 2
_SETTINGS: Final = frozenset({"plan", "train", "launch"})

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(context_settings={"ignore_unknown_options": True})
def plan(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="task.py:Task, a Hugging Face config.json, or sizes: --params 320M --layers 24 --hidden 1024 "
            "(--vocab, --seq)",
        ),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="8xA100-40GB, 64xH100-80GB, or machines: 2x p4d.24xlarge")
    ] = "",
    global_batch: Annotated[str, typer.Option(help="samples behind one update, or tokens: 4Mtok")] = "",
    tokens: Annotated[str, typer.Option(help="length of the run in tokens (or samples): 1T")] = "",
    layout: Annotated[str, typer.Option(help='one that you want: "fsdp=8"; else the best is searched')] = "",
    max_usd: Annotated[
        str, typer.Option(help="leave out what costs more: 5000, 1.5k; with --fit what it buys")
    ] = "",
    max_days: Annotated[
        float | None, typer.Option(help="leave out what takes longer; with --fit what it buys")
    ] = None,
    calibrate: Annotated[
        str, typer.Option(help="a run of this model on one such device; times are refitted to its steps")
    ] = "",
    fit: Annotated[bool, typer.Option("--fit", help="how large a batch, sample and model fit here?")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="the page with which a team asks for the money")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="the plan in plain words")] = False,
    output: Annotated[
        Path | None, typer.Option(help="folder for torchrun.sh, accelerate.yaml, deepspeed.json")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file; its section plan is for this command")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="plan.spot=true, plan.micro_batch=8")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="everything as JSON")] = False,
    plot: Annotated[Path | None, typer.Option(help="draw memory over time and per device (PNG)")] = None,
    why: Annotated[bool, typer.Option("--why", help="all layouts, terms and assumptions")] = False,
) -> None:
    """What fits, on which layout, how fast, for how many dollars?

    Example: hemostat plan --params 320M --layers 24 --hidden 1024 --cluster 8xA100-40GB --tokens 6B
    """
    asked = read_words(words or [])
    about = _about({"fit": fit, "ask": ask, "explain": explain, "why": why}, json_)
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    typed = _section({"cluster": cluster, "layout": layout, "max_usd": max_usd, "max_days": max_days})
    values["plan"] = _checked({**_table(values), **typed, **measured(calibrate)})
    task = _task_of(asked[0], values)
    made, has = _made(asked, values, (global_batch, tokens), about == "fit")
    _write(made, task, output, plot)
    record = calibration_sentence(Path(".hemostat") / FILE, made.cluster.device.name, made.profile.num_params)
    more = [f"checked  {record}"] if record else []
    if json_:
        print(json.dumps(to_plain(made) | {"checked": record}, indent=2))
    else:
        print(plan_text(made, about, task, [*more, *_recipe(made, task, values, about)], **has))
    if made.best is None:
        raise typer.Exit(code=_NOTHING_FITS)


def _made(
    asked: tuple[str, Mapping[str, int]], values: Mapping[str, Any], length: tuple[str, str], is_fit: bool
) -> tuple[Plan, dict[str, float | None]]:
    """The plan; with `--fit`, whose caps are what somebody has, its largest sizes and these caps.

    Raises:
        FieldError: no cluster.
    """
    model, numbers = asked
    section = dict(values["plan"])
    cluster = section.pop("cluster", "")
    if not cluster:
        raise FieldError("cluster", "", "is missing", 'Write it like --cluster "8xA100-40GB".')
    sizes = sizes_of(model, numbers, section)
    profile = profile_of_model(model, sizes, values)
    is_task = sizes is None
    others = () if is_task else ("global_batch", "optimizer")  # a task's own come with it
    told = {**of_task(model, values), **{name: values[name] for name in others if name in values}, **section}
    told |= lengths(profile, *length)
    has = {name: told.pop(f"max_{name}", None) if is_fit else None for name in ("usd", "days")}
    made = Plan.make(profile, cluster, told)
    return (made.with_largest(sizes) if is_fit else made), has


def _about(flags: Mapping[str, bool], is_json: bool) -> str:
    """Which page was asked for.

    Raises:
        UsageError: two of them, or one of plain text as JSON.
    """
    asked = [name for name, is_asked in flags.items() if is_asked]
    if len(asked) > 1:
        raise UsageError(f"--{' and --'.join(asked)} are pages of their own. Ask for one at a time.")
    if is_json and asked and asked[0] in ("ask", "explain"):
        raise UsageError(
            f"--{asked[0]} is a page of text, and --json is everything as values. Ask for one of them."
        )
    return asked[0] if asked else ""


def _table(values: Mapping[str, Any]) -> dict[str, Any]:
    found = values.get("plan", {})
    if not isinstance(found, dict):
        raise FieldError(
            "plan", found, "is a section, not a value", "Write it like --set plan.micro_batch=8."
        )
    return found


def _section(typed: dict[str, Any]) -> dict[str, Any]:
    """What was typed of `[plan]`."""
    found = {name: value for name, value in typed.items() if value not in ("", None)}
    if typed["layout"] == "auto":
        raise FieldError("layout", "auto", "is what a plan looks for anyway", "Leave --layout out.")
    if typed["layout"]:
        found["layout"] = read_layout(typed["layout"])
    return found


def _checked(section: dict[str, Any]) -> dict[str, Any]:
    """`[plan]` with amounts as numbers, however they were written.

    Raises:
        FieldError: an amount that is none.
    """
    found = dict(section)
    if isinstance(found.get("max_usd"), str):
        found["max_usd"] = parse_usd(found["max_usd"], "max_usd")
    for name in ("max_usd", "max_days"):
        value = found.get(name)
        if isinstance(value, int | float) and not 0 < value < math.inf:
            raise FieldError(name, value, "must be above 0", "Give what you can spend.")
    if "sample_tokens" in found:
        found["sample_tokens"] = parse_count(str(found["sample_tokens"]), "plan.sample_tokens")
    if isinstance(found.get("usd_per_hour"), str | int | float):
        price = price_usd_per_hour("plan.usd_per_hour", given=found["usd_per_hour"])
        found["usd_per_hour"] = price.usd_per_hour
    return found


def _task_of(model: str, values: Mapping[str, Any]) -> str:
    """The task, or empty where the plan is of a config.json or of sizes, which have recipes for settings.

    Raises:
        FieldError: a model that is neither a task's file nor a config.json.
        UnknownNameError: a setting that nothing here reads.
    """
    if model and not model.endswith(".json"):
        if ".py" not in model:
            raise FieldError(
                "model",
                model,
                "is neither a task's file nor a config.json",
                "Write task.py:Task, the path of a Hugging Face config.json, or sizes: --params 7B.",
            )
        return model
    known = {*Base.__struct_fields__, *Devices.__struct_fields__, *_SETTINGS}
    for name in values:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    return ""


def _write(made: Plan, task: str, output: Path | None, plot: Path | None) -> None:
    said = [] if output is None else write_plan_files(made, output, task)
    if plot is not None:
        said.append(f"wrote {draw_plan(made, plot)}")
    for sentence in said:
        typer.echo(sentence, err=True)  # stdout may be JSON


def _recipe(made: Plan, task: str, values: Mapping[str, Any], about: str) -> list[str]:
    """Rate, warm-up and patience for the batch; of a model without a task, what is needed to say them."""
    best = made.best
    if best is None or about not in ("", "why"):
        return []
    if task:
        return [_recipe_line(made, best, base_of_task(task, task_values(values)))]
    given = {name: values[name] for name in Base.__struct_fields__ if name in values}
    if not {"lr", "tuned_batch"} <= set(given):
        return [
            "recipe   add what works on one device, --set lr=3e-4 --set tuned_batch=64, for rate and warm-up at batch "
            f"{made.goal.global_batch:,}"
        ]
    if made.goal.num_tokens and not {"total_samples", "epochs"} & set(given):
        given["total_samples"] = math.ceil(made.goal.num_tokens / made.profile.num_tokens)
    return [_recipe_line(made, best, Base.from_text({"optimizer": made.goal.optimizer, **given}))]


def _recipe_line(made: Plan, best: Choice, base: Base) -> str:
    devices = Devices(
        num_ranks=best.layout.num_data_ranks,
        global_batch=made.goal.global_batch,
        micro_batch=best.workload.micro_batch,
    )
    recipe = convert(base, devices)
    rate = f"lr {recipe.lr:.4g}"
    if recipe.is_sweep:
        rate = "lr: train at each of " + ", ".join(f"{value:.4g}" for value in recipe.rates)
    patience = f", patience {recipe.patience_evals} evaluations" if recipe.patience_evals else ""
    return (
        f"recipe   {rate}, warm-up {recipe.warmup_steps} steps{patience} at batch {made.goal.global_batch:,}"
    )
