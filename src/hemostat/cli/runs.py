"""`hemostat runs`: lists the recorded runs, newest first, and shows one with where its values came from."""

from __future__ import annotations

import json as json_text
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from hemostat.config import to_plain
from hemostat.errors import UnknownNameError, UsageError
from hemostat.track import RunRecord, list_runs, load_run
from hemostat.units import format_count, format_number, format_plus_minus, format_seconds, format_usd

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_ACTIONS = ("list", "show", "compare", "budget", "audit")
_SHOWN = 10
_EVALUATIONS = 2
_LINES = 12


@app.command()
def runs(
    action: Annotated[str, typer.Argument(help="list, show, compare, budget, or audit")] = "list",
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="run ids, unique parts of them, or last; compare takes several"
        ),
    ] = None,
    root: Annotated[Path, typer.Option("--runs", help="folder of all runs")] = Path(".hemostat/runs"),
    num: Annotated[
        int | None,
        typer.Option(min=0, help="how many to list (10), or evaluations with --samples (2); 0 = all"),
    ] = None,
    reindex: Annotated[bool, typer.Option("--reindex", help="read every run directory again")] = False,
    samples: Annotated[
        bool, typer.Option("--samples", help="for show: what the task's show() returned")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="for compare: draw compare.png in the folder of all runs")
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="show: how values came about; compare: all that differ")
    ] = False,
) -> None:
    """Which commit, data and parameters gave which result?"""
    if action not in _ACTIONS:
        raise UnknownNameError("action", action, _ACTIONS)
    names = names or []
    if plot and action != "compare":
        raise UsageError("--plot belongs to compare. Write `hemostat runs compare A B --plot`.")
    if samples and action != "show":
        raise UsageError("--samples belongs to one run. Write `hemostat runs show last --samples`.")
    if action == "list":
        if names:
            raise UsageError(f"run={names[0]!r}: list takes no run. Write `hemostat runs show {names[0]}`.")
        print(_listing(root, list_runs(root, rebuild=reindex), _SHOWN if num is None else num, json))
        return
    if action == "budget":
        from hemostat.cli.budget import print_page

        print_page(root, json)
        return
    if action == "compare":
        _compare([load_run(root, name) for name in names], root, {"json": json, "plot": plot, "why": why})
        return
    if len(names) > 1:
        raise UsageError(f"{action} takes one run. Write `hemostat runs compare {' '.join(names)}`.")
    record = load_run(root, names[0] if names else "last")
    if action == "audit":
        from hemostat.cli.audit import audit_lines

        print("\n".join(audit_lines(record)))
        return
    if samples:
        print(_samples(record, _EVALUATIONS if num is None else num, json))
        return
    print(_as_json(record) if json else "\n".join(_page(record, why)))


def _compare(records: list[RunRecord], root: Path, show: dict[str, bool]) -> None:
    from hemostat.report import Comparison

    compared = Comparison(records)
    lines = [json_text.dumps(compared.values, indent=1)] if show["json"] else compared.lines(show["why"])
    print("\n".join(lines))
    if show["plot"]:
        path = compared.draw(root / "compare.png")
        typer.echo(f"wrote {path}", err=show["json"])


def _listing(root: Path, found: list[RunRecord], num: int, as_json: bool) -> str:
    shown = found[:num] if num else found
    if as_json:
        return json_text.dumps([_row(record) for record in shown], indent=1)
    if not found:
        return f"no runs in {root}. Start one: hemostat train FILE.py:CLASS"
    table: list[tuple[str, ...]] = [
        ("run", "state", "task", "ranks", "best", "samples", "time", "cost", "commit")
    ]
    table += [_cells(record) for record in shown]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    if len(found) > len(shown):
        lines.append(f"and {len(found) - len(shown)} older; all: hemostat runs --num 0")
    return "\n".join(lines)


def _row(record: RunRecord) -> dict[str, Any]:
    """The figures of one line, as `--json` prints them; what a run does not say is None."""
    summary, headline = record.summary, record.headline
    position = record.position or (None, None)
    return {
        "run": record.id,
        "state": record.state,
        "created": record.created,
        "task": _task(headline),
        "num_ranks": _inside(headline, "hardware", "num_ranks") or headline.get("num_ranks"),
        "monitor": summary.get("monitor"),
        "best": summary.get("best"),
        "steps": summary.get("steps", position[0]),
        "samples": summary.get("samples", position[1]),
        "train_s": summary.get("train_s"),
        "usd": summary.get("usd"),
        "commit": _inside(headline, "provenance", "git", "commit"),
        "dirty": _inside(headline, "provenance", "git", "dirty"),
        "data": _inside(headline, "data", "digest"),
        "error": record.error or None,
    }


def _cells(record: RunRecord) -> tuple[str, ...]:
    row = _row(record)
    task = row["task"] or ""
    return (
        record.id,
        record.state,
        task if len(task) <= 28 else f"...{task[-25:]}",
        _text(row["num_ranks"]),
        _text(row["best"]),
        format_count(row["samples"]) if isinstance(row["samples"], int | float) else "",
        format_seconds(row["train_s"]) if isinstance(row["train_s"], int | float) else "",
        format_usd(row["usd"]) if isinstance(row["usd"], int | float) else "",
        _commit(row),
    )


def _samples(record: RunRecord, num: int, as_json: bool) -> str:
    found = record.samples()
    if as_json:
        return json_text.dumps([to_plain(sample) for sample in found], indent=1)
    if not found:
        return f"no samples in {record.id}: they are recorded when the task has show(self, output, batch)"
    steps = sorted({sample.step for sample in found})
    shown = steps[-num:] if num else steps
    lines = []
    for sample in found:
        if sample.step in shown:
            head = f"step {sample.step}  {sample.name}"
            text = [f"  {line}" for line in (sample.text or "").splitlines()]
            lines += [f"{head}  {sample.path}"] if sample.text is None else [head, *text]
    if len(shown) < len(steps):
        left = len(steps) - len(shown)
        lines.append(f"and {left} earlier evaluation{'s' * (left != 1)}; all: --num 0")
    return "\n".join(lines)


def _as_json(record: RunRecord) -> str:
    ended = record.exit
    state = {"state": record.state, "exit": None if ended is None else {"status": ended[0], "why": ended[1]}}
    return json_text.dumps(
        {**record.header, **state, "metrics": record.metric_names(), "evaluations": record.evaluations()},
        indent=1,
    )


def _page(record: RunRecord, why: bool) -> list[str]:
    header = record.header
    row = _row(record)
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.created))
    lines = [f"run      {record.id}  {row['task'] or ''}  made {made}", f"state    {_state(record)}"]
    if row["best"] is not None:
        at = record.summary.get("best_step")
        lines.append(
            f"best     {row['monitor'] or 'value'} {_text(row['best'])}" + (f" at step {at}" if at else "")
        )
    restarts = header.get("restarts")
    if isinstance(restarts, list) and restarts:
        lines.append(f"restarts {len(restarts)}; the last one: {_inside(restarts[-1], 'why')}")
    lines += _judged(record)
    if row["steps"] is not None:
        lines.append(f"length   {row['steps']} steps, {_text(row['samples'])} samples{_spent(row)}")
    lines += _found(header)
    lines.append(f"code     {_code(header)}")
    lines.append(f"data     {_data(header)}")
    lines.append(f"machine  {_machine(header)}")
    command = header.get("command") or _inside(header, "provenance", "command") or []
    lines.append(f"command  {command if isinstance(command, str) else ' '.join(map(str, command))}")
    names = record.metric_names()
    lines.append(
        f"metrics  {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else "metrics  none"
    )
    lines.append(f"folder   {record.path}")
    values = [item for item in header.get("recipe", []) if isinstance(item, dict)]
    if why:
        return [*lines, "", *_reasons(values)]
    if values:
        lines.append(f"values   {len(values)}, each with its reason: {record.command('runs show')} --why")
    return lines if len(lines) <= _LINES else [line for line in lines if not line.startswith("metrics  ")]


def _found(header: dict[str, Any]) -> list[str]:
    """What a guard found last, and how many there were."""
    found = [item for item in header.get("verdicts", []) if isinstance(item, dict)]
    if not found:
        return []
    more = f" ({len(found) - 1} before: --json, verdicts)" if len(found) > 1 else ""
    return [f"found    {found[-1].get('code', '')} {found[-1].get('message', '')}{more}"]


def _judged(record: RunRecord) -> list[str]:
    """The latest evaluation of each split, and how often the test data were looked at."""
    latest = {str(fields.get("split")): fields for fields in record.evaluations()}
    parts = []
    for fields in latest.values():
        for name, figure in list(fields.get("figures", {}).items())[:3]:
            value, error = figure.get("value"), figure.get("standard_error")
            sure = isinstance(value, int | float) and isinstance(error, int | float)
            parts.append(f"{name} {format_plus_minus(value, error) if sure else _text(value)}")
    looks = sum(fields.get("split") == "test" for fields in record.evaluations())
    tested = f"; tested {looks} time{'s' * (looks != 1)}" if looks else ""
    return [f"judged   {', '.join(parts)}{tested}"] if parts else []


def _reasons(values: list[dict[str, Any]]) -> list[str]:
    if not values:
        return ["no values were recorded"]
    name = max(len(str(item.get("field", ""))) for item in values)
    lines = []
    for item in values:
        before = item.get("before")
        change = f"{_text(before)} -> " if before not in (None, item.get("value")) else ""
        source = f" [{item['source']}]" if item.get("source") else ""
        said = f"{item.get('why', '')} ({item.get('confidence', 'given')}){source}"
        lines.append(f"{item.get('field', '')!s:<{name}}  {change}{_text(item.get('value'))}: {said}")
    return lines


def _state(record: RunRecord) -> str:
    if record.exit is None:
        silent = f", last sign of life {format_seconds(max(0.0, record.silent_s))} ago"
        return f"{record.state}{silent}" + (": no rank wrote how it ended" if record.state == "lost" else "")
    status, reason = record.exit
    reason = reason or str(record.summary.get("reason") or "")
    return f"{record.state} (exit status {status})" + (f": {reason}" if reason else "")


def _spent(row: dict[str, Any]) -> str:
    parts = []
    if isinstance(row["train_s"], int | float):
        parts.append(format_seconds(row["train_s"]))
    if isinstance(row["usd"], int | float):
        parts.append(format_usd(row["usd"]))
    return "".join(f", {part}" for part in parts)


def _code(header: dict[str, Any]) -> str:
    git = _inside(header, "provenance", "git")
    if not isinstance(git, dict):
        return "not recorded"
    if "commit" not in git and "dirty" not in git:
        return str(git.get("state", "not recorded"))
    commit = str(git.get("commit") or "no commit yet")[:12]
    said = f"{commit} on {git.get('branch') or 'no branch'}"
    if not git.get("dirty"):
        return f"{said}, clean"
    diff = str(git.get("diff", ""))
    cut = ", cut short" if git.get("diff_truncated") else ""
    return (
        f"{said}, dirty: diff of {len(diff.splitlines())} lines{cut}, {git.get('num_untracked', 0)} untracked"
    )


def _data(header: dict[str, Any]) -> str:
    data = header.get("data")
    if not isinstance(data, dict):
        return "not recorded"
    samples = f", {data['num_samples']} samples" if "num_samples" in data else ""
    if not data.get("digest"):
        return f"{data.get('tier', 'unknown')}: no fingerprint{samples}"
    return f"{str(data['digest'])[:12]} ({data.get('tier')} fingerprint{samples})"


def _machine(header: dict[str, Any]) -> str:
    where, hardware = header.get("provenance"), header.get("hardware")
    where = where if isinstance(where, dict) else {}
    hardware = hardware if isinstance(hardware, dict) else {}
    parts = [
        f"{hardware.get('num_ranks')} x {hardware.get('name', 'device')}"
        if hardware.get("num_ranks")
        else "",
        str(where.get("hostname", "")),
        f"Python {where['python']}" if "python" in where else "",
        f"torch {hardware['torch']}" if "torch" in hardware else "",
        f"seed {header['seed']}" if "seed" in header else "",
    ]
    return ", ".join(part for part in parts if part) or "not recorded"


def _task(headline: dict[str, Any]) -> str | None:
    task = headline.get("task")
    spec = task.get("spec") if isinstance(task, dict) else task
    if spec is None and isinstance(headline.get("command"), list):  # it failed before its task was recorded
        spec = next((word for word in headline["command"] if ".py" in str(word)), None)
    return spec if isinstance(spec, str) else None


def _commit(row: dict[str, Any]) -> str:
    return f"{str(row['commit'])[:7]}{'*' if row['dirty'] else ''}" if row["commit"] else ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return format_number(value) if number else str(value)


def _inside(tree: Any, *names: str) -> Any:
    for name in names:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree
