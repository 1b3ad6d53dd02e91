"""`hemostat plan`: what fits, how fast, for how many dollars; of a task, a config.json or three numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.cli.audit import FILE, calibration_sentence
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
from hemostat.errors import FieldError
from hemostat.plan import Layout, Plan
from hemostat.recipe import Devices, convert
from hemostat.report import draw_plan, plan_text, write_plan_files
from hemostat.units import parse_usd

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
    max_usd: Annotated[str, typer.Option(help="leave out what costs more: 5000")] = "",
    max_days: Annotated[float | None, typer.Option(help="leave out what takes longer")] = None,
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
    model, numbers = read_words(words or [])
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    typed = _section({"layout": layout, "max_usd": max_usd, "max_days": max_days})
    values["plan"] = {**values.get("plan", {}), **typed, **measured(calibrate)}
    cluster = cluster or values["plan"].pop("cluster", "")
    if not cluster:
        raise FieldError("cluster", "", "is missing", 'Write it like --cluster "8xA100-40GB".')
    sizes = sizes_of(model, numbers, values["plan"])
    profile = profile_of_model(model, sizes, values)
    told = {**of_task(model, values), **values["plan"], **lengths(profile, global_batch, tokens)}
    made = Plan.make(profile, cluster, told)
    _write(made, model, output, plot)
    about = "fit" if fit else "ask" if ask else "explain" if explain else "why" if why else ""
    if json_:
        print(json.dumps(to_plain(made), indent=2))
    else:
        more = [*_checked(), *_command(made, model, values)] if about in ("", "why") else []
        print("\n".join([plan_text(made.with_largest(sizes) if fit else made, about), *more]))
    if made.best is None:
        raise typer.Exit(code=1)


def _section(typed: dict[str, Any]) -> dict[str, Any]:
    """What was typed of `[plan]`."""
    found: dict[str, Any] = {}
    if typed["layout"]:
        found["layout"] = Layout.values(typed["layout"])
    if typed["max_usd"]:
        found["max_usd"] = parse_usd(typed["max_usd"], "max_usd")
    if typed["max_days"] is not None:
        found["max_days"] = typed["max_days"]
    return found


def _write(made: Plan, model: str, output: Path | None, plot: Path | None) -> None:
    written = []
    if output is not None:
        written += write_plan_files(made, output, model.partition(":")[0] or "train.py")
    if plot is not None:
        written.append(draw_plan(made, plot))
    for path in written:
        typer.echo(f"wrote {path}", err=True)  # stdout may be JSON


def _checked() -> list[str]:
    said = calibration_sentence(Path(".hemostat") / FILE)
    return [f"checked  {said}"] if said else []


def _command(made: Plan, model: str, values: dict[str, Any]) -> list[str]:
    """The recipe of a task for the batch, and the command that runs the best layout."""
    best = made.best
    if best is None or not model or model.endswith(".json"):
        return []
    layout, work = best.layout, best.workload
    devices = Devices(
        num_ranks=layout.num_data_ranks, global_batch=made.goal.global_batch, micro_batch=work.micro_batch
    )
    recipe = convert(base_of_task(model, task_values(values)), devices)
    axes = [str(layout)]
    if layout.recompute != "none":
        axes.append(f"recompute={layout.recompute}")
    if layout.stages_per_rank > 1:
        axes.append(f"schedule=interleaved,stages_per_rank={layout.stages_per_rank}")
    if not layout.reshard:
        axes.append("reshard=false")
    rate = f"lr {recipe.lr:.4g}"
    if recipe.is_sweep:
        rate = "lr: train at each of " + ", ".join(f"{value:.4g}" for value in recipe.rates)
    patience = f", patience {recipe.patience_evals} evaluations" if recipe.patience_evals else ""
    return [
        f"recipe   {rate}, warm-up {recipe.warmup_steps} steps{patience} at batch {made.goal.global_batch:,}",
        f'run      hemostat train {model} --nproc {made.cluster.num_devices} --layout "{",".join(axes)}" '
        f"--set global_batch={made.goal.global_batch} --set micro_batch={work.micro_batch}",
    ]
