"""`hemostat verify`: runs a short copy of a task or a script on several numbers of processes and compares."""

from __future__ import annotations

import json as json_text
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from hemostat.config import merge, parse_overrides, read_toml
from hemostat.errors import FieldError, UsageError
from hemostat.findings import Finding, Severity, exit_status
from hemostat.launch import Job, backend
from hemostat.track import RunRecord, new_run_id

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_INSIDE = "HEMOSTAT_VERIFY"
MAX_COUNTS = 5
MAX_LINES = 12


class Verified(NamedTuple):
    """What all jobs together say; see `hemostat.train.judge_jobs`."""

    table: dict[int, dict[str, float]]
    findings: list[Finding]
    about: dict[str, Any]
    failed: dict[int, str]


@app.command()
def verify(
    task: Annotated[
        str, typer.Argument(help="task file and class (digits.py:Digits), or a script with a Session")
    ],
    nproc: Annotated[str, typer.Option(help="numbers of processes; 1 is always run")] = "1,2,4",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="one setting, as in --set lr=0.1")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Prove on the CPU that N processes take the steps of one, or name what breaks it."""
    values = merge(read_toml(config) if config else {}, parse_overrides(set_ or []))
    if _INSIDE in os.environ:
        raise typer.Exit(_be_a_rank(task, values))
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError("verify starts its own processes. Leave torchrun out, and write --nproc 1,2,4.")
    counts = _counts(nproc)
    if ":" not in task and values:
        raise UsageError(
            "settings are for a task, file.py:Class; a script has its own. Leave --set and --config out."
        )
    words = [sys.executable, "-m", "hemostat", "verify", task]
    words += ["--config", str(config)] if config else []
    for pair in set_ or []:
        words += ["--set", pair]
    with tempfile.TemporaryDirectory(prefix="hemostat-verify-") as folder:
        dtype, why = "float64", _run(1, words, max(counts), "float64", Path(folder))
        if why:
            dtype, in_float64 = "float32", why
            if _run(1, words, max(counts), dtype, Path(folder)):
                raise UsageError(f"{task} does not run on one process: {in_float64}")
            why = in_float64
        failed = _run_rest(counts, words, dtype, Path(folder))
        verdict = _judge(Path(folder), counts, dtype, failed, why)
    print(_as_json(verdict) if json else "\n".join(_lines(task, verdict)))
    raise typer.Exit(exit_status(verdict.findings))


def _counts(text: str) -> list[int]:
    try:
        counts = sorted({1, *(int(word) for word in text.split(","))})
    except ValueError:
        raise FieldError("nproc", text, "is not a list of numbers", "Write it like --nproc 1,2,4.") from None
    if counts[0] < 1:
        raise FieldError("nproc", text, "has a number below 1", "Write it like --nproc 1,2,4.")
    if len(counts) > MAX_COUNTS:
        raise FieldError("nproc", text, f"asks for more than {MAX_COUNTS} numbers", "Choose fewer.")
    if counts[-1] > 16 * (os.cpu_count() or 1):
        raise FieldError("nproc", text, f"is too many for {os.cpu_count()} CPUs", "Choose smaller numbers.")
    return counts


def _be_a_rank(task: str, values: dict[str, Any]) -> int:
    from hemostat.train import verify_rank

    return verify_rank(task, values, json_text.loads(os.environ[_INSIDE]))


def _run(num_ranks: int, words: list[str], most_ranks: int, dtype: str, folder: Path) -> str:
    """Start one job and wait; why it failed, or "".

    Raises:
        UsageError: it was refused.
    """
    run_dir = folder / f"{dtype}-{num_ranks}"
    env = {
        _INSIDE: json_text.dumps({"most_ranks": most_ranks, "dtype": dtype}),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    job = Job(
        command=tuple(words), num_ranks=num_ranks, run_id=new_run_id(), run_dir=run_dir, env=env, grace_s=5
    )
    status = backend("local").run(job)
    ended = RunRecord(run_dir).exit
    if status == 2:
        raise UsageError(ended[1] if ended else "the job was refused")
    if status >= 75:
        raise typer.Exit(status)
    return (ended[1] if ended and ended[1] else f"it ended with status {status}") if status else ""


def _run_rest(counts: list[int], words: list[str], dtype: str, folder: Path) -> dict[int, str]:
    failed = {}
    for num_ranks in counts[1:]:
        why = _run(num_ranks, words, counts[-1], dtype, folder)
        if why:
            failed[num_ranks] = why
    return failed


def _judge(folder: Path, counts: list[int], dtype: str, failed: dict[int, str], why: str) -> Verified:
    from hemostat.train import judge_jobs

    runs = {num: folder / f"{dtype}-{num}" for num in counts if num not in failed}
    table, findings, about = judge_jobs(runs, dtype)
    more = [
        Finding(
            code="HV013",
            severity=Severity.ERROR,
            message=f"{num} processes do not run: {text}",
            fix="Mend that first.",
            where=f"{num} processes",
        )
        for num, text in failed.items()
    ]
    if why:
        message = f"does not run in float64 ({why}), so float32 was compared, to 1e-3."
        more.append(Finding(code="HV012", severity=Severity.INFO, message=message))
    return Verified(table, more[: len(failed)] + findings + more[len(failed) :], about, failed)


def _lines(task: str, verdict: Verified) -> list[str]:
    about = verdict.about
    columns = list(next(iter(verdict.table.values())))
    lines = [
        f"verify     {task}  first {about['samples']} of {about['of_samples']:,} samples, {about['steps']} steps of "
        f"{about['batch']}, accumulation 1 and 2, {about['dtype']}, CPU",
        "processes  " + "".join(f"{name:<10}" for name in columns).rstrip(),
    ]
    for num_ranks, row in verdict.table.items():
        lines.append(f"{num_ranks:<11}" + "".join(f"{_cell(value):<10}" for value in row.values()).rstrip())
    lines += [f"{num_ranks:<11}did not run" for num_ranks in verdict.failed]
    room = MAX_LINES - len(lines) - 1
    shown = verdict.findings if len(verdict.findings) <= room else verdict.findings[: room - 1]
    lines += [_finding(finding) for finding in shown]
    if len(shown) < len(verdict.findings):
        lines.append(f"and {len(verdict.findings) - len(shown)} more: --json shows all")
    return [*lines, _sentence(verdict)]


def _finding(finding: Finding) -> str:
    where = f" [{finding.where}]" if finding.where else ""
    return f"{finding.code}  {finding.message} {finding.fix}".rstrip() + where


def _cell(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "equal" if value == 0.0 else "differs" if math.isinf(value) else f"{value:.0e}"


def _sentence(verdict: Verified) -> str:
    broken = [finding for finding in verdict.findings if finding.severity > Severity.INFO]
    if not broken:
        return f"verdict    {', '.join(map(str, verdict.table))} processes take the same steps, and a resumed run too"
    return f"verdict    not equal: {', '.join(finding.code for finding in broken)}"


def _as_json(verdict: Verified) -> str:
    from msgspec import to_builtins

    table = {
        num: {
            name: None if math.isnan(value) else str(value) if math.isinf(value) else value
            for name, value in row.items()
        }
        for num, row in verdict.table.items()
    }
    return json_text.dumps(
        {
            **verdict.about,
            "equal": not exit_status(verdict.findings),
            "table": table,
            "failed": verdict.failed,
            "findings": to_builtins(verdict.findings),
        },
        indent=1,
    )
