"""`hemostat data`: what would make reading the data of a task faster, and a copy that is read faster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.config import merge, parse_overrides, read_toml
from hemostat.errors import TaskError, UnknownNameError
from hemostat.track import collect_provenance
from hemostat.units import format_bytes, format_seconds

SPLITS = ("train", "val", "test")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def data() -> None:
    """Make reading the data of a task faster."""


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
    if not json:
        source.probe(size, _tell_ways())
        return
    import msgspec

    report = source.probe(size)
    ways = [advice._asdict() for advice in report.advice]
    found = {"micro_batch": report.micro_batch, "fetch_s": report.fetch_s, "advice": ways}
    print(msgspec.json.encode(found).decode())


@app.command()
def prepare(
    task: Annotated[str, typer.Argument(help="task file and class: digits.py:Digits")],
    out: Annotated[Path, typer.Option(help="folder of the copy; it must not exist")],
    split: Annotated[str, typer.Option(help="train, val or test")] = "train",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="one setting, as in --set lr=0.1")] = None,
    json: Annotated[bool, typer.Option("--json", help="print prepared.json's content")] = False,
) -> None:
    """Write a decoded or tokenised, memory-mapped copy of the data of a task."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    from hemostat.data import Source  # these two need torch
    from hemostat.task import call, load_task

    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    values.pop("train", None)
    loaded = load_task(task, values)
    found = call(loaded.task, f"{split}_data")
    if found is None:
        raise TaskError(f"{task} has no {split}_data. Choose another --split.")
    source = Source(found, f"{split}_data")
    named = call(loaded.task, "fingerprint") if split == "train" else None  # it is about the training data
    where = collect_provenance(loaded.path.parent)
    recipe = source.prepare(
        out,
        parts=None if named is None else [named] if isinstance(named, str | bytes | Path) else list(named),
        about={
            "task": loaded.spec,
            "split": split,
            "values": {name: str(value) for name, value in values.items()},
            "command": " ".join(where["command"]),
            "git": {name: where["git"].get(name) for name in ("commit", "dirty")},
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
        progress=_progress(source.num_samples),
    )
    if json:
        import msgspec

        print(msgspec.json.encode(recipe).decode())
        return
    num_bytes = sum(file.stat().st_size for file in out.iterdir())
    digest = recipe["source"].get("digest", "")[:12] or "not known"
    print(
        f"{recipe['num_samples']:,} samples, {format_bytes(num_bytes)} in {out}; fingerprint of the source {digest}"
    )
    print(f'return it from {split}_data(): hemostat.data.PreparedData("{out}")')


def _tell_ways() -> Callable[[Any], None]:
    """Print each way as it comes."""
    num_told: int | None = None

    def tell(report: Any) -> None:
        nonlocal num_told
        if num_told is None:
            cost = format_seconds(report.fetch_s)
            print(f"one thread reads a batch of {report.micro_batch} in {cost}", flush=True)
        for advice in report.advice[num_told or 0 :]:
            gain = "" if advice.gain is None else f"{advice.gain:.3g}x"
            print(f"{advice.way:<12} {gain:>8}  {advice.what}", flush=True)
        num_told = len(report.advice)

    return tell


def _progress(num_samples: int) -> Callable[[int], None]:
    last_s = time.perf_counter()

    def tell(done: int) -> None:
        nonlocal last_s
        if time.perf_counter() - last_s > 5.0:
            last_s = time.perf_counter()
            print(f"{done:,} of {num_samples:,} samples", file=sys.stderr)

    return tell
