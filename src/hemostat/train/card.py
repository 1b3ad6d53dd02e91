"""The card of an export: which data, commit and recipe made the model, how good it is, how to load it."""

from __future__ import annotations

from typing import Any

from hemostat.track import RunRecord
from hemostat.train.weights import Weights, weights_text
from hemostat.units import format_plus_minus


def card(record: RunRecord, weights: Weights, manifest: dict[str, Any]) -> str:
    """The text of README.md.

    Args:
        record: the run.
        weights: what was exported.
        manifest: content of hemostat.json.
    """
    header = record.header
    spec = manifest["task"]
    lines = [
        f"# {spec.rpartition(':')[2] or spec}, run {record.id}",
        "",
        "| | |",
        "|---|---|",
        f"| task | `{spec}` |",
        f"| weights | {weights} |",
        f"| commit | {_commit(header)} |",
        f"| training data | {_data(header.get('data'))} |",
        f"| made with | torch {manifest['torch']}, {_machine(header)} |",
        "",
        "## Figures",
        "",
        *_figures(record, weights),
        "",
        "## How to load it",
        "",
        *_loading(manifest),
        "",
        "## Recipe",
        "",
        *_recipe(header.get("recipe", [])),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _commit(header: dict[str, Any]) -> str:
    git = header.get("provenance", {}).get("git", {})
    if not git.get("commit"):
        return "not recorded"
    return f"`{git['commit']}`" + (
        ", with uncommitted changes (the diff is in the run)" if git.get("dirty") else ""
    )


def _data(data: Any) -> str:
    if not isinstance(data, dict):
        return "not recorded"
    size = f"{data['num_samples']} samples" if "num_samples" in data else "size not recorded"
    if not data.get("digest"):
        return f"{size}, no fingerprint"
    return f"{size}, {data.get('tier')} fingerprint `{data['digest']}`"


def _machine(header: dict[str, Any]) -> str:
    hardware = header.get("hardware", {})
    return f"{hardware.get('num_ranks', '?')} x {hardware.get('name', 'device not recorded')}"


def _figures(record: RunRecord, weights: Weights) -> list[str]:
    """Those of these weights alone; what others reached says nothing about them."""
    rows = []
    summary = record.summary
    if isinstance(summary.get("best"), int | float) and summary.get("best_step") == weights.step:
        rows.append(
            f"| {summary.get('monitor')} | {summary['best']:.6g} | | best during training, chosen by it |"
        )
    own = [fields for fields in record.evaluations() if fields.get("step") == weights.step]
    latest = {fields.get("split"): fields for fields in own}
    looks = sum(fields.get("split") == "test" for fields in record.evaluations())
    for split, fields in latest.items():
        seen = f"; test data looked at {looks} time{'s' * (looks != 1)}" if split == "test" else ""
        for name, figure in fields["figures"].items():
            value, error = figure["value"], figure["standard_error"]
            sure = isinstance(value, int | float) and isinstance(error, int | float)
            shown = format_plus_minus(value, error).split(" ± ") if sure else [f"{value}", "not known"]
            what = (
                f"{weights_text(fields['checkpoint'], weights.step)}, {fields['num_samples']} samples{seen}"
            )
            rows.append(f"| {name} | {shown[0]} | {shown[1]} | {what} |")
    if not rows:
        judge = f"hemostat evaluate {record.id} --checkpoint step-{weights.step}"
        return [f"These weights were not judged; `{judge}` does it."]
    return ["| figure | value | standard error | how |", "|---|---|---|---|", *rows]


def _loading(manifest: dict[str, Any]) -> list[str]:
    more = ""
    if manifest["kind"] == "task":
        more = f', task="path/to/{manifest["task"]}"'
    lines = ["```python", "import hemostat", f'model = hemostat.load("path/to/this/folder"{more})', "```", ""]
    if manifest["kind"] == "huggingface":
        return [*lines, f"Or `transformers.{manifest['class']}.from_pretrained(...)`."]
    if manifest["kind"] == "archive":
        text = "`model.pt2` holds the model in evaluation mode, so the training code is not needed."
        return [*lines, f"{text} `model.safetensors` holds the weights alone."]
    return [*lines, f"The task file is needed: {manifest['why']}"]


def _recipe(rows: list[Any]) -> list[str]:
    values = [row for row in rows if isinstance(row, dict)]
    if not values:
        return ["Not recorded."]
    lines = ["| value | | why |", "|---|---|---|"]
    for row in values:
        before = row.get("before")
        value = "none" if row.get("value") is None else row["value"]
        change = f"{before} -> " if before not in (None, row.get("value")) else ""
        source = f" ({row['source']})" if row.get("source") else ""
        why = f"{row.get('why', '')}{source}".replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {row.get('field')} | {change}{value} | {why} |")
    return lines
