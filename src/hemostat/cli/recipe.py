"""`hemostat recipe`: one-device hyper-parameters in, the recipe for N devices out, as a table, JSON or TOML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.config import decode, merge, parse_overrides, read_toml, to_plain
from hemostat.errors import RecordError, UnknownNameError
from hemostat.findings import Severity
from hemostat.recipe import Base, BatchRun, Devices, Recipe, convert
from hemostat.report import recipe_lines

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_DEVICE_KEYS = frozenset(Devices.__struct_fields__)
_BASE_KEYS = frozenset(Base.__struct_fields__)


@app.command()
def recipe(
    task: Annotated[str, typer.Argument(help="task file, file.py:Class; its fields are the values")] = "",
    num_ranks: Annotated[int | None, typer.Option(help="data-parallel ranks (devices) you have now")] = None,
    micro_batch: Annotated[int | None, typer.Option(help="samples of one rank in one pass")] = None,
    accumulation: Annotated[int | None, typer.Option(help="passes added up before an update")] = None,
    global_batch: Annotated[int | None, typer.Option(help="samples behind one update")] = None,
    device: Annotated[str | None, typer.Option(help="A100, V100, T4, cpu, ... for the precision")] = None,
    runs: Annotated[
        str, typer.Option(help='your runs, batch:samples (or epochs) to target: "128:1.2M 256:1.3M"')
    ] = "",
    output: Annotated[Path | None, typer.Option(help="write the recipe as TOML")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with the one-device values")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="name=value, over the file")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="everything as JSON")] = False,
    why: Annotated[bool, typer.Option("--why", help="reason, source and confidence of every value")] = False,
) -> None:
    """What do my one-device hyper-parameters become on N devices?

    Example: hemostat recipe --set optimizer=sgd --set lr=0.1 --set tuned_batch=128 --num-ranks 8
    --micro-batch 128
    """
    flags = {
        "num_ranks": num_ranks,
        "micro_batch": micro_batch,
        "accumulation": accumulation,
        "global_batch": global_batch,
        "device": device,
    }
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    assumed = [name for name in ("lr", "tuned_batch") if name not in values and not task]
    base, devices = _settings(task, merge(values, {k: v for k, v in flags.items() if v is not None}))
    result = convert(base, devices, BatchRun.parse(runs))
    if as_json:
        print(json.dumps(to_plain(result), indent=2))
    else:
        print("\n".join(recipe_lines(result, why)))
    if output is not None:
        _write(output, result)
    if assumed and not runs and not as_json:
        names = " and ".join(f"{name}={getattr(base, name):g}" for name in assumed)
        typer.echo(f"note: {names} assumed; give yours, like --set lr=0.1", err=True)
    if any(finding.severity == Severity.ERROR for finding in result.findings):
        raise typer.Exit(code=1)


def _settings(task: str, values: dict[str, Any]) -> tuple[Base, Devices]:
    devices = {name: values.pop(name) for name in list(values) if name in _DEVICE_KEYS}
    for other in ("train", "plan", "launch"):  # one file serves all commands
        values.pop(other, None)
    if task:
        return base_of_task(task, values), decode(Devices, devices)
    for name in values:
        if name not in _BASE_KEYS:
            raise UnknownNameError("setting", name, _BASE_KEYS | _DEVICE_KEYS)
    return Base.from_text(values), decode(Devices, devices)


def base_of_task(task: str, values: dict[str, Any]) -> Base:
    """The task's values, and the size of its data: warm-up and length depend on it."""
    import msgspec

    from hemostat.data import Source  # these two need torch
    from hemostat.task import build_model, call, load_task, own_optimizer, recipe_optimizer

    loaded = load_task(task, values)
    source = Source(call(loaded.task, "train_data"), "train_data")
    known: dict[str, Any] = {"num_train_samples": loaded.base.num_train_samples or source.num_samples}
    if source.declared_batch is not None and "tuned_batch" not in loaded.given:
        known["tuned_batch"] = source.declared_batch
    if "optimizer" not in loaded.given:
        optimizer = own_optimizer(loaded.task, list(build_model(loaded.task).parameters()))
        known["optimizer"] = (optimizer and recipe_optimizer(optimizer)) or loaded.base.optimizer
    return msgspec.structs.replace(loaded.base, **known)


def _write(path: Path, result: Recipe) -> None:
    text = result.to_toml()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}. Choose another --output.") from None
    typer.echo(f"wrote {path}; read it back with --config {path}", err=True)  # stdout may be JSON
