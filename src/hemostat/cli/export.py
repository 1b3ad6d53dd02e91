"""`hemostat export`: writes a recorded run's model, weights and card into a folder to hand over."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from hemostat.track import load_run
from hemostat.units import format_bytes

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="run id, a unique part of it, or last")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty folder")],
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
    """Write a run's model, weights and card into a folder; hemostat.load(DIR) gives the model."""
    record = load_run(runs, run)
    from hemostat.train import export_run

    written = export_run(record, directory, checkpoint=checkpoint, task=task)
    if json:
        print(json_text.dumps(written, indent=1))
        return
    print(f"wrote    {directory}: {written['weights']} of run {record.id}")
    for path in sorted(directory.iterdir()):
        print(f"         {path.name}  {format_bytes(path.stat().st_size)}")
    print(f"load     {_how(directory, written)}")
    for note in written["notes"]:
        print(f"note     {note}")


def _how(directory: Path, written: dict[str, str]) -> str:
    if written["kind"] == "huggingface":
        return (
            f'hemostat.load("{directory}"), or transformers.{written["class"]}.from_pretrained("{directory}")'
        )
    if written["kind"] == "archive":
        return f'hemostat.load("{directory}"); the training code is not needed'
    return f'hemostat.load("{directory}", task="{directory / written["task"]}"), because {written["why"]}'
