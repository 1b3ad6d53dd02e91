"""`hemostat data`: what would make reading the data of a task faster, measured on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hemostat.config import merge, parse_overrides, read_toml

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def data() -> None:
    """What would make reading the data of a task faster?"""


@app.command()
def probe(
    task: Annotated[str, typer.Argument(help="task file and class: digits.py:Digits")],
    micro_batch: Annotated[int | None, typer.Option(min=1, help="samples in a batch; as tuned")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="one setting, as in --set lr=0.1")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the figures as JSON")] = False,
) -> None:
    """Measure each way to read faster on the training data of a task, about a second each."""
    from hemostat.data import Source  # these two need torch
    from hemostat.task import call, load_task

    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    values.pop("train", None)  # one file serves all commands
    loaded = load_task(task, values)
    source = Source(call(loaded.task, "train_data"), "train_data")
    size = micro_batch or source.declared_batch or loaded.base.tuned_batch
    report = source.probe(size)
    if json:
        import msgspec

        ways = [advice._asdict() for advice in report.advice]
        found = {"micro_batch": size, "fetch_s": report.fetch_s, "advice": ways}
        print(msgspec.json.encode(found).decode())
        return
    print(f"one thread reads a batch of {min(size, source.num_samples)} in {1e3 * report.fetch_s:.3g} ms")
    for advice in report.advice:
        gain = "" if advice.gain is None else f"{advice.gain:.3g}x"
        print(f"{advice.way:<12} {gain:>8}  {advice.what}")
