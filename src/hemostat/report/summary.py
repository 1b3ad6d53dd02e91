"""The end of a run in at most 12 lines, or with every reason, read from its record."""

from __future__ import annotations

import json
import math
from typing import Any

from hemostat.report.braille import curve
from hemostat.track import RunRecord
from hemostat.units import format_count, format_number, format_seconds, format_usd

CURVE_LINES = 3


def run_summary(record: RunRecord, *, as_json: bool = False, why: bool = False) -> str:
    """Say how a run ended.

    Args:
        record: the run.
        as_json: the figures as one JSON object instead.
        why: add the reason of each value below.

    Returns:
        At most 12 lines without `why`.
    """
    header = record.header
    if as_json:
        return json.dumps(
            {"run": record.id, "state": record.state, **header.get("summary", {})}, allow_nan=True
        )
    lines = [_headline(record), _recipe_line(header), *_curve_lines(record), *_result_lines(record)]
    if why:
        lines += ["", *_why_lines(header)]
    return "\n".join(lines)


def _headline(record: RunRecord) -> str:
    header = record.header
    task = header.get("task", {}).get("spec", "")
    ranks = header.get("hardware", {}).get("num_ranks", header.get("num_ranks", 1))
    return f"run      {record.id}  {task}  {ranks} process{'es' if ranks != 1 else ''}  {record.state}"


def _recipe_line(header: dict[str, Any]) -> str:
    rows = {row["field"]: row for row in header.get("recipe", [])}
    batch = header.get("batch", {})
    parts = [_change(rows, "global_batch", "batch"), _change(rows, "lr", "lr")]
    for field, name in (("warmup_steps", "warm-up"), ("schedule", ""), ("patience_evals", "patience")):
        row = rows.get(field)
        if row is not None and row.get("value") not in (None, 0):
            unit = {"warmup_steps": " steps", "patience_evals": " evaluations"}.get(field, "")
            parts.append(f"{name} {row['value']}{unit}".strip())
    if batch:
        cut = f"{batch['num_ranks']} x {batch['micro_batch']}"
        parts[0] += f" ({cut} x {batch['accumulation']})" if batch["accumulation"] > 1 else f" ({cut})"
    parts.append(header.get("precision", ""))
    if not rows:
        return "recipe   not settled before the run ended"
    return f"recipe   {'  '.join(part for part in parts if part)}"


def _change(rows: dict[str, Any], field: str, name: str) -> str:
    row = rows.get(field)
    if row is None:
        return ""
    now = _short(row.get("value"))
    before = row.get("before")
    return f"{name} {_short(before)} -> {now}" if before not in (None, row.get("value")) else f"{name} {now}"


def _short(value: Any) -> str:
    return (
        format_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    )


def _curve_lines(record: RunRecord) -> list[str]:
    values = [value for _, _, value in record.metrics("loss")]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ["loss     nothing was recorded"]
    scale = math.log if min(finite) > 0 else float  # the first steps would flatten all the others
    drawn = curve([scale(value) if math.isfinite(value) else value for value in values], 56, CURVE_LINES)
    picture = record.path / "loss.png"
    labels = [f"{max(finite):.4g} highest", *[""] * (CURVE_LINES - 2), f"{min(finite):.4g} lowest"]
    labels[1] = f"picture {picture}" if picture.exists() else ""
    return [
        f"{'loss' if row == 0 else '':<8} {line} {label}"
        for row, (line, label) in enumerate(zip(drawn, labels, strict=True))
    ]


def _result_lines(record: RunRecord) -> list[str]:
    summary = record.header.get("summary", {})
    lines = []
    if summary.get("best") is not None:
        final = "  ".join(f"{name} {float(value):.4f}" for name, value in summary.get("final", {}).items())
        best = f"{summary['monitor']} {float(summary['best']):.4f}"
        lines.append(f"best     {best} at step {summary['best_step']}  (last: {final})")
    elif summary:
        lines.append(f"best     {_not_judged(record.header, summary)}")
    baselines = record.header.get("baselines") or {}
    if baselines:
        lines.append(
            f"against  {'  '.join(f'{name} {float(value):.4g}' for name, value in baselines.items())}"
        )
    if summary:
        skipped = f", {summary['skipped_steps']} skipped" if summary.get("skipped_steps") else ""
        lines.append(f"stopped  step {summary['steps']}{skipped}: {summary['reason']}")
        usd = summary.get("usd")
        cost = "cost not known (--set train.usd_per_hour=3.2)" if usd is None else f"cost {format_usd(usd)}"
        if summary.get("usd_after_best") is not None:
            cost += f", {format_usd(summary['usd_after_best'])} of it after the best point"
        elif summary.get("after_best_s") is not None:
            cost += f"; {format_seconds(summary['after_best_s'])} after the best point"
        lines.append(f"time     {format_seconds(summary['train_s'])}; {_waited(summary)}")
        lines.append(f"spent    {_spent(summary)}{cost}")
    if summary.get("critical_batch") is not None:
        used = record.header.get("batch", {}).get("global_batch", "?")
        about = f"{float(summary['critical_batch']):.2g}"
        lines.append(
            f"noise    beyond about {format_count(float(about))} samples a step more devices buy little; this run "
            f"used {used} (--set critical_batch={float(about):.0f})"
        )
    lines.append(_next_line(record))
    return lines


def _waited(summary: dict[str, Any]) -> str:
    parts = [("median", "median_wait_s"), ("p99", "p99_wait_s"), ("longest", "longest_wait_s")]
    times = [f"{name} {format_seconds(summary[field])}" for name, field in parts if field in summary]
    told = f"{summary['waited']} ({', '.join(times)})" if times else str(summary["waited"])
    return f"{told}; {summary['eval_waited']}" if summary.get("eval_waited") else told


def _spent(summary: dict[str, Any]) -> str:
    """Shares of the whole, without those below half a per cent; empty where the run does not say."""
    total_s = summary.get("spent_s") or 0.0
    names = {"data": "waiting for data", "start": "start-up", "lost": "lost and repeated"}
    shares = {names.get(name, name): s / total_s for name, s in summary.get("spent", {}).items() if total_s}
    parts = [f"{name} {share:.0%}" for name, share in shares.items() if share >= 0.005]
    return f"{format_seconds(total_s)}: {', '.join(parts)}; " if parts else ""


def _next_line(record: RunRecord) -> str:
    hint = record.header.get("summary", {}).get("feed_hint")
    if record.state == "paused":
        return f"next     {record.command('train --resume')}"
    if not hint:
        return f"next     {record.command('runs show')} --why"
    spec = record.header.get("task", {}).get("spec")
    measure = f"hemostat data probe {spec}" if spec else "hemostat.data.Source(your_data).probe(micro_batch)"
    return f"next     {hint}; {measure} measures the gains"


def _not_judged(header: dict[str, Any], summary: dict[str, Any]) -> str:
    if summary.get("num_evaluations"):
        return f"{summary.get('monitor', 'the metric')} was never a finite number"
    if header.get("data", {}).get("num_val_samples") == 0:
        return "not judged: the task has no val_data"
    return "not judged before the run ended"


def _why_lines(header: dict[str, Any]) -> list[str]:
    lines = []
    for row in header.get("recipe", []):
        source = f"  [{row['source']}]" if row.get("source") else ""
        lines.append(
            f"{row['field']} = {_short(row.get('value'))} ({row['confidence']}): {row['why']}{source}"
        )
    lines += [
        f"{finding['code']} {finding['message']} {finding.get('fix', '')}".rstrip()
        for finding in header.get("findings", [])
    ]
    return lines
