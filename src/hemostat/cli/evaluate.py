"""`hemostat evaluate`: judges a recorded run on its validation or test data and says how sure the figures are."""

from __future__ import annotations

import json as json_text
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.cli.processes import check_processes
from hemostat.errors import FieldError, UnknownNameError, UsageError
from hemostat.launch import Job, backend
from hemostat.track import RunRecord, list_runs, load_run, new_run_id
from hemostat.units import format_plus_minus

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_SPLITS = ("val", "test")
_INSIDE = "HEMOSTAT_EVALUATION"


@app.command()
def evaluate(
    run: Annotated[str, typer.Argument(help="run id, a unique part of it, or last")],
    split: Annotated[str, typer.Option(help="val, or test: every look at the test data is counted")] = "val",
    nproc: Annotated[int, typer.Option(help="processes on this machine")] = 1,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="best, last or step-40; the best if left out, the last of a run never judged"),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="task file and class, where the recorded one has moved")
    ] = None,
    runs: Annotated[Path, typer.Option(help="folder of all runs")] = Path(".hemostat/runs"),
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Judge a recorded run on validation or test data, with the standard error of each figure."""
    if split not in _SPLITS:
        raise UnknownNameError("split", split, _SPLITS)
    record = load_run(runs, run)
    if _INSIDE in os.environ:
        from hemostat.train import evaluate_rank

        raise typer.Exit(evaluate_rank(record, split, checkpoint=checkpoint, task=task))
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError("evaluate starts its own processes. Leave torchrun out, and write --nproc N.")
    _refuse_idle(check_processes(nproc), split, record.header)
    words = [sys.executable, "-m", "hemostat", "evaluate", record.id, "--split", split, "--runs", str(runs)]
    for flag, value in (("--checkpoint", checkpoint), ("--task", task)):
        words += [flag, value] if value is not None else []
    evaluation_id = new_run_id()
    folder = record.evaluation_dir(evaluation_id)
    job = Job(command=tuple(words), num_ranks=nproc, run_id=evaluation_id, run_dir=folder, env={_INSIDE: "1"})
    status = backend("local").run(job)
    found = [fields for fields in record.evaluations() if fields.get("id") == evaluation_id]
    if not found:
        ended = RunRecord(folder).exit
        if ended and ended[0] == status:  # of a rank that was killed the backend has told
            shutil.rmtree(folder, ignore_errors=True)
            print(f"error: {ended[1]}", file=sys.stderr)
        raise typer.Exit(status or 3)
    print(_as_json(record, found[0], runs) if json else "\n".join(_lines(record, found[0], runs)))


def _refuse_idle(nproc: int, split: str, header: dict[str, Any]) -> None:
    num_samples = header.get("data", {}).get("num_val_samples") if split == "val" else None
    if num_samples and nproc > num_samples:
        raise FieldError("nproc", nproc, f"val_data has {num_samples} samples", "Take fewer processes.")


def _as_json(record: RunRecord, fields: dict[str, Any], root: Path) -> str:
    mine, all_runs = _looks(record, fields, root)
    return json_text.dumps(
        {"run": record.id, **fields, "looks": {"run": mine, "all_runs": all_runs}}, indent=1
    )


def _lines(record: RunRecord, fields: dict[str, Any], root: Path) -> list[str]:
    figures = fields["figures"]
    width = max(9, *map(len, figures))
    spec = record.header.get("task", {}).get("spec", "")
    data = fields["data"]
    digest = f"fingerprint {data['digest'][:12]} ({data['tier']})" if data.get("digest") else "no fingerprint"
    lines = [
        f"{'run':<{width}}  {record.id}  {spec}  {fields['weights']}",
        f"{'data':<{width}}  {fields['split']}_data, {fields['num_samples']} samples, {digest}",
        *(f"{name:<{width}}  {_figure(figure)}" for name, figure in figures.items()),
    ]
    if fields["split"] == "test":
        mine, all_runs = _looks(record, fields, root)
        lines.append(f"{'looks':<{width}}  {_said_looks(mine, all_runs)}")
    return lines + [f"{'note':<{width}}  {note}" for note in fields["notes"]]


def _figure(figure: dict[str, Any]) -> str:
    value, error = figure["value"], figure["standard_error"]
    if isinstance(value, str):
        return f"{value}: nothing was counted, or it was not finite"
    if error is None:
        return f"{value:.4g}  (no standard error: one unit only, all alike, or no sum and count)"
    unit = {"sample": "over samples", "batch": "over batches: rows beside each other count as related"}
    return f"{format_plus_minus(value, error)}  (standard error {unit[figure['unit']]})"


def _looks(record: RunRecord, fields: dict[str, Any], root: Path) -> tuple[int, int | None]:
    """How often the test data were looked at: by this run, and by all runs on data of the same digest."""

    def tests(of: RunRecord) -> list[dict[str, Any]]:
        return [found for found in of.evaluations() if found.get("split") == "test"]

    digest = fields["data"].get("digest")
    mine = len(tests(record))
    if digest is None:
        return mine, None
    same = [
        found for other in list_runs(root) for found in tests(other) if found["data"].get("digest") == digest
    ]
    return mine, len(same)


def _said_looks(mine: int, all_runs: int | None) -> str:
    times = "once" if mine == 1 else f"{mine} times"
    text = f"this run has been tested {times}"
    if all_runs is None:
        return f"{text}; looks of other runs are not known, as these data have no fingerprint."
    if all_runs > mine:
        text += f", all runs together {all_runs} times on these data"
    chosen = " Do not choose between runs by it: that is what val_data is for." if all_runs > 1 else ""
    return f"{text}.{chosen}"
