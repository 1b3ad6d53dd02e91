"""`hemostat runs audit`: a run's forecast beside what it was, and the record of how far forecasts here were off."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from hemostat.errors import RecordError, UsageError
from hemostat.track import RunRecord
from hemostat.units import format_seconds, format_usd

FILE: Final = "calibration.jsonl"  # beside the folder of all runs


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the record.

    Attributes:
        run: its id.
        cluster: that the forecast was for.
        forecast_step_s: seconds of an optimizer step.
        step_s: what it was, in the median.
        time: of the audit, seconds since 1970.
    """

    run: str
    cluster: str
    forecast_step_s: float
    step_s: float
    time: float

    @property
    def ratio(self) -> float:
        """Fact over forecast."""
        return self.step_s / self.forecast_step_s


def audit_lines(record: RunRecord) -> list[str]:
    """Set forecast beside fact, and keep it in the record.

    Args:
        record: a run that was started with a plan.

    Raises:
        UsageError: the run was not planned, or took no step.
        RecordError: the record cannot be written.
    """
    forecast, summary = record.header.get("forecast"), record.summary
    if not isinstance(forecast, dict):
        raise UsageError(
            f"run {record.id} has no forecast. A plan makes one: hemostat train TASK --layout auto."
        )
    step_s = record.step_s
    if step_s is None:
        raise UsageError(f"run {record.id} took fewer than three steps: nothing to set beside its forecast.")
    found = Audit(
        run=record.id,
        cluster=str(forecast["cluster"]),
        forecast_step_s=float(forecast["step_s"]),
        step_s=step_s,
        time=time.time(),
    )
    file = record.path.parent.parent / FILE
    known = [each for each in read_audits(file) if each.run != record.id]
    _write(file, [*known, found])
    lines = [f"audit    {record.id}, planned for {found.cluster} under {forecast['layout']}"]
    lines.append(
        "step     " + _beside(found.forecast_step_s, found.step_s, float(forecast["error"]), format_seconds)
    )
    planned_usd, usd = forecast.get("usd"), summary.get("usd")
    if planned_usd and usd:
        lines.append("cost     " + _beside(planned_usd, usd, float(forecast["error"]), format_usd))
    return [*lines, f"record   {calibration_sentence(file)}"]


def calibration_sentence(file: Path) -> str:
    """How far the forecasts of audited runs were off; empty where none was audited.

    Args:
        file: the record.
    """
    audits = read_audits(file)
    if not audits:
        return ""
    ratios = [each.ratio for each in audits]
    return (
        f"{len(ratios)} audited run{'s' * (len(ratios) > 1)} here took {statistics.median(ratios):.2f} times as long "
        f"as forecast ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def read_audits(file: Path) -> list[Audit]:
    """The record; empty where there is none.

    Raises:
        RecordError: it cannot be read.
    """
    if not file.exists():
        return []
    try:
        return [
            msgspec.json.decode(line, type=Audit) for line in file.read_bytes().splitlines() if line.strip()
        ]
    except (OSError, msgspec.MsgspecError) as error:
        raise RecordError(f"{file} cannot be read: {error}. Move it away to begin a new record.") from None


def _write(file: Path, audits: list[Audit]) -> None:
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in audits)
    beside = file.with_name(f".{file.name}.tmp")
    try:
        beside.write_bytes(text)
        beside.replace(file)
    except OSError as error:
        raise RecordError(f"cannot write {file}: {error.strerror}. Free some space.") from None


def _beside(forecast: float, fact: float, error: float, text: Any) -> str:
    low, high = forecast * (1 - error), forecast * (1 + error)
    where = "inside" if low <= fact <= high else "outside"
    return (
        f"forecast {text(forecast)} ({text(low)} to {text(high)}), fact {text(fact)}: {fact / forecast - 1:+.0%}, "
        f"{where} the error bar"
    )
