"""`hemostat tune`: finds better hyper-parameters of a task or a script inside a budget."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hemostat.cli.budget import allowed
from hemostat.cli.tune_places import share_out
from hemostat.cli.tune_setup import Asked, TuneSettings, price_of, read_words, seconds_per_unit, setup
from hemostat.cli.tune_space import space_of
from hemostat.cli.tune_study import DoubtError, Opened, asked_of, begin, go_on, run, studies_of
from hemostat.cli.tune_text import answer_text, answer_values, begin_lines, status_of
from hemostat.config import decode, merge, parse_overrides, read_toml
from hemostat.errors import FieldError, Interrupted
from hemostat.recipe import caps
from hemostat.report import tune_live
from hemostat.track import new_run_id
from hemostat.tune import Budget

# Seconds in which a trial is taken to save and leave, until one has done so: three to four times what was measured on
# two busy CPUs (load 8), where a script was gone 0.7 s after it was told and a small task 1.4 s after its last value.
LEAVE_S = {"script": 2.0, "task": 6.0}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def tune(
    what: Annotated[
        list[str] | None, typer.Argument(help="digits.py:Digits, or -- python train.py --lr {lr} ...")
    ] = None,
    max_hours: Annotated[str | None, typer.Option(help="hard cap of the study: 6, 90min")] = None,
    max_usd: Annotated[str | None, typer.Option(help="hard cap in dollars: 40; needs a price")] = None,
    parallel: Annotated[
        int | None, typer.Option(help="trials side by side; as many as there is room for")
    ] = None,
    space: Annotated[
        Path | None, typer.Option(help="TOML file of the parameters; a task has its own")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="what is made better: val_loss, max:accuracy")] = None,
    resume: Annotated[str | None, typer.Option(help="go on with a study, perhaps with more budget")] = None,
    nproc: Annotated[int, typer.Option(help="processes of one trial")] = 1,
    runs: Annotated[Path, typer.Option(help="folder of all runs")] = Path(".hemostat/runs"),
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="one setting, as in --set epochs=3")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the answer as JSON")] = False,
    why: Annotated[bool, typer.Option("--why", help="why these parameters, in this order")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="a direction that looks wrong is meant")] = False,
) -> None:
    """Find better hyper-parameters inside a budget.

    Example: hemostat tune digits.py:Digits --max-hours 6 --parallel 5
    """
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    money = {"max_hours": max_hours, "max_usd": max_usd}
    if resume is not None:
        _refuse_others(
            what, values, {"space": space, "metric": metric, "nproc": None if nproc == 1 else nproc}
        )
        slots = share_out(parallel, asked_of(studies_of(runs) / resume).nproc)
        opened = go_on(studies_of(runs) / resume, len(slots))
        allowed(opened.asked.values, runs)
        if any(money.values()):
            opened.study.extend(_budget(money, opened.asked, len(slots), runs), opened.study.clock_s)
    else:
        section = values.pop("tune", {})
        task, command = read_words(what or [])
        asked = Asked(
            task=task,
            command=command,
            values=values,
            metric=metric,
            nproc=nproc,
            tune=decode(TuneSettings, section, prefix="tune."),
        )
        allowed(values, runs)
        slots = share_out(parallel, nproc)
        opened = _new(asked, space, runs, money, len(slots), why=why)
    with opened.journal:
        for line in begin_lines(opened, len(slots)):
            print(line, file=sys.stderr)
        status = _run(opened, runs, slots, sure=yes)
        print(json.dumps(answer_values(opened), indent=1) if as_json else answer_text(opened, runs))
    raise typer.Exit(status)


def _refuse_others(what: list[str] | None, values: dict[str, Any], flags: dict[str, Any]) -> None:
    """A study that goes on keeps what it was begun with."""
    typed = {"task": what or None, "--set": values or None, **flags}
    for field, value in typed.items():
        if value is not None:
            shown = value if field != "task" else " ".join(what or [])
            raise FieldError(
                field, shown, "cannot change in a study that goes on", "Leave it out, or begin a new study."
            )


def _run(opened: Opened, runs: Path, slots: tuple[dict[str, str], ...], *, sure: bool) -> int:
    again = f"hemostat tune --resume {opened.name}"
    try:
        with tune_live.LiveStudy(opened.setup.metric) as show:
            reason = run(opened, runs, slots, show, sure=sure)
    except Interrupted as signal:
        print(f"{signal}: all trials are saved; go on with: {again}", file=sys.stderr)
        return signal.exit_status
    except DoubtError as doubt:
        print(f"question: {doubt.finding.message} {doubt.finding.fix}", file=sys.stderr)
        print(
            f"if it is meant: {again} --yes; else begin anew with --metric max:NAME or min:NAME",
            file=sys.stderr,
        )
        return 1
    print(f"the study ended: {reason}", file=sys.stderr)
    return status_of(opened, reason)


def _new(
    asked: Asked, file: Path | None, runs: Path, money: dict[str, str | None], num_workers: int, *, why: bool
) -> Opened:
    if not asked.task and not asked.command:
        fix = "Write hemostat tune FILE.py:CLASS, or -- python train.py --lr {lr}."
        raise FieldError("task", "", "is missing", fix)
    budget = _budget(money, asked, num_workers, runs)
    found = space_of(asked, file)
    for row in found.reasons if why else ():
        print(f"why      {row.field}: {row.why}", file=sys.stderr)
    asked = msgspec.structs.replace(asked, is_grids=found.is_grids)
    made = setup(asked, found.space.names, num_workers)
    file_name = next((word for word in (asked.task, *asked.command) if ".py" in word), "script")
    if asked.tune.name is not None and not re.fullmatch(r"\w[\w.-]*", asked.tune.name):
        rule = "is no plain name: letters, digits, dots and dashes"
        raise FieldError("tune.name", asked.tune.name, rule, "Write it like digits-long.")
    name = asked.tune.name or f"{Path(file_name.partition(':')[0]).stem}-{new_run_id()[-5:]}"
    return begin(studies_of(runs) / name, asked, found.space, made, budget, num_workers)


def _budget(money: dict[str, str | None], asked: Asked, num_workers: int, runs: Path) -> Budget:
    price = price_of(asked.values)
    found = caps.Caps.read(money["max_hours"], money["max_usd"], price)
    if found.max_s is None and found.max_usd is None:
        raise FieldError(
            "max_hours", None, "is missing: a study has a hard cap", "Write --max-hours 6 or --max-usd 40."
        )
    return Budget(
        max_s=found.max_s,
        max_usd=found.max_usd,
        num_devices=asked.nproc,
        usd_per_device_hour=(price or 0.0) / (num_workers * asked.nproc),
        speed=("global_batch", "micro_batch"),
        s_per_unit=seconds_per_unit(asked, runs),
        save_s=LEAVE_S["task" if asked.task else "script"],
    )
