"""`hemostat plan`: what fits, how fast, for how many dollars; of a task, a config.json or three numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.cli.planning import lengths, of_task, profile_of_model, sizes_of, task_values
from hemostat.cli.recipe import base_of_task
from hemostat.config import merge, parse_overrides, read_toml, to_plain
from hemostat.errors import FieldError
from hemostat.plan import Layout, Plan
from hemostat.recipe import Devices, convert
from hemostat.report import draw_plan, plan_text, write_plan_files
from hemostat.units import parse_usd

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def plan(
    model: Annotated[
        str, typer.Argument(help="task file and class, digits.py:Digits, or a Hugging Face config.json")
    ] = "",
    cluster: Annotated[
        str, typer.Option(help="8xA100-40GB, 64xH100-80GB, or machines: 2x p4d.24xlarge")
    ] = "",
    global_batch: Annotated[str, typer.Option(help="samples behind one update, or tokens: 4Mtok")] = "",
    tokens: Annotated[
        str, typer.Option(help="length of the run in tokens (samples, without tokens): 1T")
    ] = "",
    layout: Annotated[str, typer.Option(help='one that you want: "fsdp=8"; else the best is searched')] = "",
    params: Annotated[str, typer.Option(help="size of a decoder that has no file: 320M")] = "",
    layers: Annotated[int | None, typer.Option(help="its blocks")] = None,
    hidden: Annotated[int | None, typer.Option(help="its width")] = None,
    max_usd: Annotated[str, typer.Option(help="leave out what costs more: 5000")] = "",
    max_days: Annotated[float | None, typer.Option(help="leave out what takes longer")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="how large a batch, sample and model fit here?")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="the page with which a team asks for the money")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="the plan in plain words")] = False,
    output: Annotated[
        Path | None, typer.Option(help="folder for torchrun.sh, accelerate.yaml, deepspeed.json")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file; [plan] in it is for this command")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="plan.spot=true, plan.micro_batch=8")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="everything as JSON")] = False,
    plot: Annotated[Path | None, typer.Option(help="draw memory over time and per device (PNG)")] = None,
    why: Annotated[bool, typer.Option("--why", help="all layouts, terms and assumptions")] = False,
) -> None:
    """What fits, on which layout, how fast, for how many dollars?

    Example: hemostat plan --params 320M --layers 24 --hidden 1024 --cluster 8xA100-40GB --tokens 6B
    """
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    if not cluster:
        raise FieldError("cluster", "", "is missing", 'Write it like --cluster "8xA100-40GB".')
    asked = {"params": params, "layers": layers, "hidden": hidden}
    numbers = {name: value for name, value in asked.items() if value not in ("", None)}
    section = dict(values.get("plan", {}))
    if layout:
        section["layout"] = Layout.values(layout)
    if max_usd:
        section["max_usd"] = parse_usd(max_usd, "max_usd")
    if max_days is not None:
        section["max_days"] = max_days
    sizes = sizes_of(model, numbers, section)
    profile = profile_of_model(model, sizes, merge(values, {"plan": section}))
    made = Plan.make(
        profile, cluster, {**of_task(model, values), **section, **lengths(profile, global_batch, tokens)}
    )
    if output is not None:
        script = model.partition(":")[0] or "train.py"
        for path in write_plan_files(made, output, script):
            typer.echo(f"wrote {path}", err=True)
    if plot is not None:
        typer.echo(f"wrote {draw_plan(made, plot)}", err=True)
    if as_json:
        print(json.dumps(to_plain(made), indent=2))
    else:
        about = "fit" if fit else "ask" if ask else "explain" if explain else "why" if why else ""
        print(plan_text(made.with_largest(sizes) if fit else made, about))
        if about in ("", "why"):
            print("\n".join(_command(made, model, values)))
    if made.best is None:
        raise typer.Exit(code=1)


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
