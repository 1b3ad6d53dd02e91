"""`hemostat train`: launches the ranks of a task and says how the run ended; inside a rank it is that rank."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.cli.budget import allowed
from hemostat.cli.layout import auto_layout, check_layout, processes_of, read_layout, with_layout
from hemostat.cli.messenger import Messenger
from hemostat.cli.processes import check_processes
from hemostat.cli.project import Project
from hemostat.config import Config, decode, merge, parse_overrides, read_toml
from hemostat.errors import FieldError, MissingExtraError, RecordError
from hemostat.launch import Job, backend
from hemostat.recipe import Devices
from hemostat.track import RunRecord, create_run, load_run, new_run_id, update_run

UNSTARTED = (2, 75)  # a typing error, or somebody who thought better of it: no record is kept

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def train(
    task: Annotated[
        str | None, typer.Argument(help="task file and class: digits.py:Digits; as in the run with --resume")
    ] = None,
    nproc: Annotated[
        int | None, typer.Option(help="processes on this machine; as in the recipe, else 1")
    ] = None,
    runs: Annotated[Path, typer.Option(help="folder of all runs")] = Path(".hemostat/runs"),
    resume: Annotated[
        str | None, typer.Option(help="go on with a run from its last whole checkpoint: its id, or last")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(help='how the processes share the model: "fsdp=2,tp=2", auto; else copies'),
    ] = None,
    max_hours: Annotated[
        str | None, typer.Option(help="save and stop before so many hours are spent: 4, 90min")
    ] = None,
    max_usd: Annotated[
        str | None, typer.Option(help="save and stop before so many dollars are spent: 40; needs a price")
    ] = None,
    lr_range: Annotated[
        bool,
        typer.Option("--lr-range", help="sweep the rate first and say which to try; the run keeps its own"),
    ] = False,
    max_restarts: Annotated[int, typer.Option(help="restarts of all ranks after one has failed")] = 0,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="one setting, as in --set lr=0.1")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the outcome as JSON")] = False,
    plot: Annotated[bool, typer.Option(help="draw loss.png in the run directory")] = True,
    why: Annotated[bool, typer.Option("--why", help="show the reason of each value")] = False,
) -> None:
    """Run a task file on 1..N processes and record the run."""
    flags = {"max_hours": max_hours, "max_usd": max_usd, "lr_range": lr_range or None}
    engine = {name: value for name, value in flags.items() if value is not None}
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    values = merge(values, {"train": engine} if engine else {})
    axes, forecast = _axes(layout, None if resume else task, nproc, values)
    values = with_layout({name: value for name, value in values.items() if name != "plan"}, axes)
    show = {"json": json, "plot": plot, "why": why}
    if _is_rank():
        raise typer.Exit(_be_a_rank(_named(task), values, show))
    if resume is None:
        project = allowed(values, runs)
        job = _job(runs / new_run_id(), task, nproc, values, max_restarts)
        header = {"command": ["hemostat", *sys.argv[1:]], "kind": "train", "num_ranks": job.num_ranks}
        create_run(runs, job.run_id, {**header, **forecast})
    else:
        record = load_run(runs, resume)
        _end_if_done(record)
        given = record.given()
        values = with_layout(merge(merge(given.values, values), {"train": {"resume": record.id}}), axes)
        project = allowed(values, record.path.parent)
        if nproc is None:
            nproc = processes_of(axes) if axes else given.num_ranks
        job = _job(record.path, _same_task(task, given.task), nproc, values, max_restarts)
    raise typer.Exit(_run(job, project, show, is_new=resume is None))


def _axes(
    layout: str | None, task: str | None, nproc: int | None, values: dict[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The `[layout]` table that was asked for, and the plan's forecast of it; auto sets the micro-batch too."""
    if layout is None:
        return None, {}
    if layout != "auto":
        return read_layout(layout), {}
    if task is None or _is_rank():
        raise FieldError(
            "layout",
            "auto",
            "is chosen before a run starts, from its task",
            "Name the axes, or leave it out to keep the run's.",
        )
    chosen = auto_layout(task, nproc, values)
    if not {"micro_batch", "accumulation"} & set(values):
        values["micro_batch"] = chosen.micro_batch
    print(f"note: {chosen.sentence}", file=sys.stderr)
    return chosen.axes, {"forecast": chosen.forecast}


def _is_rank() -> bool:
    return "HEMOSTAT_RUN_DIR" in os.environ or "TORCHELASTIC_RUN_ID" in os.environ


def _end_if_done(record: RunRecord) -> None:
    if record.state == "done":
        ended = record.summary.get("reason", "it reached its end")
        print(f"run {record.id} is done, {ended}: there is nothing to resume")
        raise typer.Exit(0)


def _run(job: Job, project: Project, show: dict[str, Any], *, is_new: bool) -> int:
    before = RunRecord(job.run_dir).position
    with Messenger(job.run_dir, project, draws=show["plot"]) as messenger:
        status = _conclude(job, _launch(job, new=is_new), show, before)
        messenger.ended(status)
    return status


def _named(task: str | None) -> str:
    if task is None:
        raise FieldError("task", task, "is missing", "Write hemostat train FILE.py:CLASS, or --resume RUN.")
    return task


def _same_task(named: str | None, given: str) -> str:
    if named is not None and named.rpartition(":")[2] != given.rpartition(":")[2]:
        raise FieldError("task", named, f"is not the task of that run, {given}", "Leave the task out.")
    return named or given


class Launch(Config, frozen=True, kw_only=True):
    """`[launch]` of the settings.

    Attributes:
        port: TCP port of the rendezvous; None = a free one.
        task: of the run that a given.toml comes from; the command names its own.
        num_ranks: of that run.
    """

    port: int | None = None
    task: str | None = None
    num_ranks: int | None = None


def _job(
    run_dir: Path, task: str | None, nproc: int | None, values: dict[str, Any], max_restarts: int
) -> Job:
    """All that can be refused is refused here, before there is a record of the run.

    The ranks read what they were given from the run directory, after a restart and a resume too.
    """
    named, num_ranks = _named(task), _num_ranks(nproc, values)
    launch = values.get("launch", {})
    if not isinstance(launch, dict):
        raise FieldError(
            "launch", launch, "is a section, not a value", "Write it like --set launch.port=29500."
        )
    port = decode(Launch, launch, prefix="launch.").port
    kept = {name: value for name, value in values.items() if name != "launch"}
    file, colon, name = named.rpartition(":") if ":" in Path(named).name else (named, "", "")
    given, text = RunRecord.given_file(f"{Path(file).resolve()}{colon}{name}", num_ranks, kept)
    return Job(
        command=(sys.executable, "-m", "hemostat", "train", named, "--config", str(run_dir / given)),
        num_ranks=num_ranks,
        run_id=run_dir.name,
        run_dir=run_dir,
        port=port,
        max_restarts=max_restarts,
        env={"HEMOSTAT_LAUNCHED_S": str(time.monotonic())},  # start-up is paid too
        files={given: text},
        records=True,
    )


def _be_a_rank(task: str, values: dict[str, Any], show: dict[str, Any]) -> int:
    from hemostat.train import run_rank

    launched = "HEMOSTAT_RUN_DIR" in os.environ  # then the launcher tells how it ended, and gave the values
    return run_rank(task, values, ended=None if launched else partial(_tell, show=show))


def _num_ranks(nproc: int | None, values: dict[str, Any]) -> int:
    wanted = {name: values[name] for name in ("num_ranks",) if name in values}
    axes = values.get("train", {}).get("layout")
    if nproc is None:
        nproc = processes_of(axes) if axes else decode(Devices, wanted).num_ranks
    return check_layout(check_processes(nproc), axes or {})


def _launch(job: Job, new: bool) -> int:
    try:
        return backend("local").run(job)
    except BaseException:
        if new:
            _forget_unstarted(job.run_dir)
        raise


def _conclude(job: Job, status: int, show: dict[str, Any], before: tuple[int, int] | None) -> int:
    ended = RunRecord(job.run_dir).exit
    why = ended[1] if ended else ""
    refused = status in UNSTARTED and _forget_unstarted(job.run_dir)
    if status == 2 and RunRecord(job.run_dir).position == before:  # a refused resume changes nothing
        refused = True
    if status == 75 and why and not refused:
        _keep_reason(job, why)  # of the rank that decided; another one may have seen that rank leave only
    if status in (0, 1, 4, 5, 75) and not refused:
        _tell(job.run_dir, show)  # its line "stopped" has the reason
        return status
    if ended and why and ended[0] < 128:  # of a rank that a signal killed, the backend has told
        print(f"error: {why}", file=sys.stderr)
    if not refused:
        step = _keep_reason(job, why).get("steps", 0)  # what the ranks saw was the echo
        print(
            f"run {job.run_id} ended at step {step}; {RunRecord(job.run_dir).command('runs show')}",
            file=sys.stderr,
        )
    return status


def _keep_reason(job: Job, why: str) -> dict[str, Any]:
    """Why the run ended, in its summary, which comes back."""
    summary = load_run(job.run_dir.parent, job.run_id).summary
    with contextlib.suppress(RecordError):  # a full disk is told already
        update_run(job.run_dir, summary={**summary, "reason": why})
    return summary


def _tell(run_dir: Path, show: dict[str, Any]) -> None:
    from hemostat.report import run_summary

    record = load_run(run_dir.parent, run_dir.name)
    if show["plot"] and not show["json"]:
        _draw(record)
    print(run_summary(record, as_json=show["json"], why=show["why"]))


def _draw(record: RunRecord) -> None:
    from hemostat.report import draw_loss

    try:
        draw_loss(record)
    except (
        MissingExtraError,
        RecordError,
    ) as error:  # the run is done and recorded; a picture is not worth its exit status
        print(f"note: {error}", file=sys.stderr)


def _forget_unstarted(run_dir: Path) -> bool:
    """Remove the record of a run that was refused before its first step; a typing error is no experiment."""
    if any(path.stat().st_size for path in run_dir.glob("metrics.*.jsonl")):
        return False
    shutil.rmtree(run_dir, ignore_errors=True)
    return True
