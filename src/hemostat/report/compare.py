"""Runs side by side: the values that differ, the figures at equal samples, what each cost; as lines, values or PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hemostat.errors import UsageError
from hemostat.report.picture import picture
from hemostat.track import RunRecord
from hemostat.units import format_count, format_number, format_plus_minus, format_seconds, format_usd

SHARES = (0.25, 0.5, 1.0)
MAX_LINES = 12
# what people change, before what follows from it
_FIRST = (
    "task",
    "data",
    "lr",
    "global_batch",
    "num_ranks",
    "optimizer",
    "schedule",
    "epochs",
    "seed",
    "commit",
)


class Comparison:
    """What differs between runs, and how they did.

    Args:
        records: two or more runs; of any trainer, what they do not say is None.

    Attributes:
        values: runs: ids; metric: what is compared; differ: {name: [value of each run]}; at: list of
            {"samples", "values"}, at equal samples; best, samples, train_s, usd, evaluations: [of each run];
            shards: {"run", "against", "changes"} of each run whose data differ from those of the first one.

    Raises:
        UsageError: fewer than two runs, or one of them twice.
    """

    def __init__(self, records: Sequence[RunRecord]) -> None:
        self._records = records
        self.values = _compared(records)

    def lines(self, full: bool = False) -> list[str]:
        """The table, a column for each run.

        Args:
            full: all values that differ and all figures; else 12 lines.
        """
        return _lines(self.values, full)

    def draw(self, path: Path) -> Path:
        """Draw the compared metric of all runs over samples.

        Args:
            path: the PNG.

        Raises:
            MissingExtraError: matplotlib is not installed.
            RecordError: the disk refused the picture.
            UsageError: there is nothing to draw.
        """
        metric = str(self.values["metric"])
        curves = {record.id: record.metrics(metric) for record in self._records}
        if not any(curves.values()):
            raise UsageError(f"{metric} was recorded by none of the runs: there is nothing to draw.")
        with picture(path, "the comparison as PNG", (8, 4.5)) as figure:
            axes = figure.add_subplot()
            for name, points in curves.items():
                samples, values = [point[1] for point in points], [point[2] for point in points]
                axes.plot(samples, values, marker="o" if len(points) < 50 else None, markersize=3, label=name)
            axes.set_xlabel("samples")
            axes.set_ylabel(metric)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=8)
        return path


def _compared(records: Sequence[RunRecord]) -> dict[str, Any]:
    if len(records) < 2:
        raise UsageError(
            "compare needs two runs or more. Write `hemostat runs compare A B`; `hemostat runs` lists."
        )
    ids = [record.id for record in records]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"run {twice} is named twice. Name each run once; `hemostat runs` lists them.")
    metric = _metric(records)
    curves = [record.metrics(metric) for record in records]
    settings = [_settings(record) for record in records]
    tier = _common_tier(records)
    for one, record in zip(settings, records, strict=True):
        one["data"] = _data(record, tier)
    names = list(dict.fromkeys([*_FIRST, *(name for one in settings for name in one)]))
    differ = {name: [one.get(name) for one in settings] for name in names}
    summaries = [record.summary for record in records]
    return {
        "runs": ids,
        "metric": metric,
        "differ": {
            name: values for name, values in differ.items() if any(v != values[0] for v in values[1:])
        },
        "at": _at_equal_samples(curves),
        "best": [summary.get("best") for summary in summaries],
        "monitor": [summary.get("monitor") for summary in summaries],
        "final": [_plain(curve[-1][2]) if curve else None for curve in curves],
        "samples": [(record.position or (None, None))[1] for record in records],
        "train_s": [summary.get("train_s") for summary in summaries],
        "usd": [summary.get("usd") for summary in summaries],
        "state": [record.state for record in records],
        "evaluations": [_latest(record) for record in records],
        "shards": _shards(records, tier),
    }


def _lines(compared: dict[str, Any], full: bool) -> list[str]:
    figures = _figure_rows(compared, full)
    differ = list(compared["differ"].items())
    shards = _shard_lines(compared["shards"], full)
    room = MAX_LINES - 1 - len(figures) - len(shards)
    shown = differ if full or len(differ) <= room else differ[: room - 1]
    values = [(name, [_text(value) for value in values]) for name, values in shown]
    rows: list[tuple[str, list[str]]] = [("", compared["runs"]), *values, *figures]
    widths = [
        max(len(label) for label, _ in rows),
        *(max(map(len, cells)) for cells in zip(*_cells(rows), strict=True)),
    ]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip([label, *cells], widths, strict=True)).rstrip()
        for label, cells in rows
    ]
    if len(shown) < len(differ):
        left = len(differ) - len(shown)
        lines.append(f"and {left} more value{'s differ' if left > 1 else ' differs'}: --why")
    lines += shards
    return lines if differ else [*lines, "no recorded value differs"]


def _shard_lines(shards: list[dict[str, Any]], full: bool) -> list[str]:
    lines = [
        f"data of {one['run']} against {one['against']}: {change}"
        for one in shards
        for change in one["changes"]
    ]
    if full or len(lines) <= 2:
        return lines
    return [lines[0], f"and {len(lines) - 1} more lines about shards: --why"]


def _figure_rows(compared: dict[str, Any], full: bool) -> list[tuple[str, list[str]]]:
    rows = []
    for point in compared["at"][0 if full else -2 :]:
        label = f"{compared['metric']} at {format_count(point['samples'])}"
        rows.append((label, list(map(_text, point["values"]))))
    monitors = set(compared["monitor"])
    best = f"best {next(iter(monitors))}" if len(monitors) == 1 and None not in monitors else "best"
    rows.append((best, list(map(_text, compared["best"]))))
    judged = list(dict.fromkeys(name for one in compared["evaluations"] for name in one))
    judged.sort(key=lambda name: not name.startswith("test_"))
    for name in judged if full else judged[:2]:
        rows.append((name, [_sure(one.get(name)) for one in compared["evaluations"]]))
    for name, form in (("samples", format_count), ("train_s", format_seconds), ("usd", format_usd)):
        values = compared[name]
        if any(value is not None for value in values):
            label = {"train_s": "time", "usd": "cost"}.get(name, name)
            rows.append((label, ["" if value is None else form(value) for value in values]))
    return rows


def _cells(rows: list[tuple[str, list[str]]]) -> list[list[str]]:
    return [cells for _, cells in rows]


def _metric(records: Sequence[RunRecord]) -> str:
    """The monitored metric where it is one, else the validation loss that all have, else the training loss."""
    monitors = {record.summary.get("monitor") for record in records}
    recorded = set.intersection(*(set(record.metric_names()) for record in records))
    wanted = [next(iter(monitors))] if len(monitors) == 1 else []
    return next((str(name) for name in [*wanted, "val_loss", "loss"] if name in recorded), "loss")


def _settings(record: RunRecord) -> dict[str, Any]:
    """Everything that was chosen or given, by name: hyper-parameters first, then what is around them."""
    header = record.header
    task = header.get("task")
    found: dict[str, Any] = {"task": task.get("spec") if isinstance(task, dict) else task}
    rows = {row["field"]: row for row in header.get("recipe", []) if isinstance(row, dict)}
    found |= {field: row.get("value") for field, row in rows.items()}
    for part in ("hyper_parameters", "batch"):
        found |= _section(header, part)
    if "before" in rows.get("global_batch", {}):
        found["tuned_batch"] = rows["global_batch"][
            "before"
        ]  # the section above has the batch that came out of it
    given = task.get("values") if isinstance(task, dict) else None
    for name, value in (given if isinstance(given, dict) else {}).items():
        found.setdefault(name, value)  # what the recipe made of it is what counts
    found |= {"precision": header.get("precision"), "seed": header.get("seed")}
    found |= {
        f"train.{name}": value for name, value in _section(header, "settings").items() if name != "seed"
    }
    hardware, git = _section(header, "hardware"), _section(_section(header, "provenance"), "git")
    found |= {"device": hardware.get("name"), "torch": hardware.get("torch")}
    commit = git.get("commit")
    found["commit"] = f"{str(commit)[:7]}{'*' if git.get('dirty') else ''}" if commit else None
    return found


def _common_tier(records: Sequence[RunRecord]) -> str | None:
    """The highest level of fingerprint that all runs have reached; other levels say nothing about each other."""
    reached = [_section(_section(record.header, "data"), "digests") for record in records]
    return next((tier for tier in ("full", "sample") if all(tier in one for one in reached)), None)


def _data(record: RunRecord, tier: str | None) -> str | None:
    data = _section(record.header, "data")
    digest = _section(data, "digests").get(tier) if tier else data.get("digest")
    if not digest:
        return None
    return str(digest)[:12] if tier else f"{str(digest)[:12]} ({data.get('tier')})"


def _shards(records: Sequence[RunRecord], tier: str | None) -> list[dict[str, Any]]:
    first = records[0].fingerprint(tier) if tier else None
    found = []
    for record in records[1:]:
        other = record.fingerprint(tier) if tier else None
        if first is None or other is None or first.digest == other.digest:
            continue
        if first.files and other.files:  # of very many files, only the digest of all is kept
            changes = other.changes(first.files)
            found.append({"run": record.id, "against": records[0].id, "changes": changes})
    return found


def _section(tree: dict[str, Any], name: str) -> dict[str, Any]:
    part = tree.get(name)
    return part if isinstance(part, dict) else {}


def _at_equal_samples(curves: list[list[tuple[int, int, float]]]) -> list[dict[str, Any]]:
    """Values of all runs at shares of the shortest one; each is the latest that was known by then."""
    if not all(curves):
        return []
    shortest = min(curve[-1][1] for curve in curves)
    points = []
    for samples in dict.fromkeys(round(shortest * share) for share in SHARES):
        values = [next((_plain(p[2]) for p in reversed(curve) if p[1] <= samples), None) for curve in curves]
        if None not in values:
            points.append({"samples": samples, "values": values})
    return points


def _plain(value: float) -> float | str:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else str(value)


def _latest(record: RunRecord) -> dict[str, Any]:
    """Name: {"value", "standard_error"} of the latest evaluation of each split."""
    found: dict[str, Any] = {}
    for fields in record.evaluations():
        found |= fields.get("figures", {})
    return found


def _sure(figure: Any) -> str:
    if not isinstance(figure, dict):
        return ""
    value, error = figure.get("value"), figure.get("standard_error")
    if isinstance(value, int | float) and isinstance(error, int | float):
        return format_plus_minus(value, error)
    return _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return format_number(value) if number else str(value)
