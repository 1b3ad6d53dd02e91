"""`hemostat train`: launches the ranks of a task and says how the run ended; inside a rank it is that rank."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.config import decode, merge, parse_overrides, read_toml
from hemostat.errors import FieldError, MissingExtraError, RecordError
from hemostat.launch import Job, backend
from hemostat.recipe import Devices
from hemostat.track import RunRecord, create_run, load_run, new_run_id, update_run

MAX_RANKS_PER_CPU = 16
UNSTARTED = (2, 75, 130, 143)  # a typing error, or somebody who thought better of it: no record is kept

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="task file and class: digits.py:Digits")],
    nproc: Annotated[
        int | None, typer.Option(help="processes on this machine; as in the recipe, else 1")
    ] = None,
    runs: Annotated[Path, typer.Option(help="folder of all runs")] = Path(".hemostat/runs"),
    port: Annotated[int | None, typer.Option(help="port of the rendezvous; a free one if left out")] = None,
    max_restarts: Annotated[int, typer.Option(help="restarts of all ranks after one has failed")] = 0,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="one setting, as in --set lr=0.1")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the outcome as JSON")] = False,
    plot: Annotated[bool, typer.Option(help="draw loss.png in the run directory")] = True,
    why: Annotated[bool, typer.Option("--why", help="show the reason of each value")] = False,
) -> None:
    """Run a task file on 1..N processes and record the run."""
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    show = {"json": json, "plot": plot, "why": why}
    if "HEMOSTAT_RUN_DIR" in os.environ or "TORCHELASTIC_RUN_ID" in os.environ:
        raise typer.Exit(_be_a_rank(task, values, show))
    num_ranks = _num_ranks(nproc, values)
    run_id = new_run_id()
    header = {"command": ["hemostat", *sys.argv[1:]], "kind": "train", "num_ranks": num_ranks}
    run_dir = create_run(runs, run_id, header)
    command = _rank_command(task, config, set_ or [])
    job = Job(
        command=command,
        num_ranks=num_ranks,
        run_id=run_id,
        run_dir=run_dir,
        port=port,
        max_restarts=max_restarts,
    )
    raise typer.Exit(_conclude(job, _launch(job), show))


def _be_a_rank(task: str, values: dict[str, Any], show: dict[str, Any]) -> int:
    from hemostat.train import run_rank

    launched = "HEMOSTAT_RUN_DIR" in os.environ  # then the launcher tells how it ended
    return run_rank(task, values, ended=None if launched else partial(_tell, show=show))


def _num_ranks(nproc: int | None, values: dict[str, Any]) -> int:
    wanted = {name: values[name] for name in ("num_ranks",) if name in values}
    num_ranks = nproc if nproc is not None else decode(Devices, wanted).num_ranks
    num_cpus = os.cpu_count() or 1
    if num_ranks > MAX_RANKS_PER_CPU * num_cpus:
        raise FieldError(
            "nproc",
            num_ranks,
            f"is more than {MAX_RANKS_PER_CPU} processes for each of {num_cpus} CPUs",
            "Use at most one process per accelerator, or per two CPUs.",
        )
    return num_ranks


def _rank_command(task: str, config: Path | None, overrides: list[str]) -> tuple[str, ...]:
    words = [sys.executable, "-m", "hemostat", "train", task]
    if config is not None:
        words += ["--config", str(config)]
    for pair in overrides:
        words += ["--set", pair]
    return tuple(words)


def _launch(job: Job) -> int:
    try:
        return backend("local").run(job)
    except BaseException:
        _forget_unstarted(job.run_dir)
        raise


def _conclude(job: Job, status: int, show: dict[str, Any]) -> int:
    ended = RunRecord(job.run_dir).exit
    why = ended[1] if ended else ""
    refused = status in UNSTARTED and _forget_unstarted(job.run_dir)
    if status in (0, 1, 4, 5, 75) and not refused:
        _tell(job.run_dir, show)  # its line "stopped" has the reason
        return status
    if ended and why and ended[0] < 128:  # of a rank that a signal killed, the backend has told
        print(f"error: {why}", file=sys.stderr)
    if not refused:
        summary = load_run(job.run_dir.parent, job.run_id).summary
        with contextlib.suppress(RecordError):  # a full disk is told already
            update_run(job.run_dir, summary={**summary, "reason": why})  # what the ranks saw was the echo
        step = summary.get("steps", 0)
        print(f"run {job.run_id} ended at step {step}; hemostat runs show {job.run_id}", file=sys.stderr)
    return status


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
