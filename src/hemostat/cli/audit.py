"""`hemostat runs audit`: a run's forecast beside what it was, and the record of how far forecasts here were off."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from hemostat.errors import RecordError, UsageError
from hemostat.track import RunRecord
from hemostat.units import format_bytes, format_seconds, format_usd, format_within

FILE: Final = "calibration.jsonl"  # beside the folder of all runs
LIKE: Final = 4.0  # models whose parameters differ by less count as of like size
_MAKERS: Final = re.compile(r"^((nvidia|tesla|amd|instinct)[ -])+|-sxm[0-9]?", re.IGNORECASE)


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the record.

    Attributes:
        run: its id.
        cluster: that the forecast was for.
        device: of that cluster; empty in old records.
        num_params: of the model; 0 in old records.
        forecast_step_s: seconds of an optimizer step.
        step_s: what it was, in the median.
        forecast_bytes: reserved on the fullest device; None where nobody said.
        reserved_bytes: what it was; None where the run recorded no peak.
        time: of the audit, seconds since 1970.
    """

    run: str
    cluster: str
    device: str = ""
    num_params: int = 0
    forecast_step_s: float
    step_s: float
    forecast_bytes: float | None = None
    reserved_bytes: float | None = None
    time: float

    @property
    def ratio(self) -> float:
        """Fact over forecast."""
        return self.step_s / self.forecast_step_s

    def is_like(self, device: str, num_params: int) -> bool:
        """Of the same device, and of a model of like size.

        Args:
            device: as a plan names it.
            num_params: of the planned model.
        """
        smaller, larger = sorted((self.num_params, num_params))
        return (self.device or _device_in(self.cluster)) == device and (
            not smaller or larger < LIKE * smaller
        )


class Record(NamedTuple):
    """What the file holds.

    Attributes:
        audits: its lines.
        torn: lines that are none; they stay in the file and do not count.
    """

    audits: list[Audit]
    torn: list[bytes]


def audit_lines(record: RunRecord) -> list[str]:
    """Set forecast beside fact, and keep it in the record where the run was on what was planned.

    Args:
        record: a run that was started with a plan.

    Raises:
        UsageError: the run was not planned, or took no step.
        RecordError: the record cannot be written.
    """
    forecast = record.header.get("forecast")
    if not isinstance(forecast, dict):
        raise UsageError(
            f"run {record.id} has no forecast. A plan makes one: hemostat train TASK --layout auto."
        )
    step_s = record.step_s
    if step_s is None:
        raise UsageError(f"run {record.id} took fewer than three steps: nothing to set beside its forecast.")
    reserved = forecast.get("reserved_bytes")
    found = Audit(
        run=record.id,
        cluster=str(forecast["cluster"]),
        device=str(forecast.get("device") or _device_in(str(forecast["cluster"]))),
        num_params=int(forecast.get("num_params", 0)),
        forecast_step_s=float(forecast["step_s"]),
        step_s=step_s,
        forecast_bytes=reserved[1] if reserved else None,
        reserved_bytes=record.summary.get("peak_reserved_bytes"),
        time=time.time(),
    )
    other = _on_something_else(forecast, record.header.get("hardware", {}))
    lines = [f"audit    {record.id}, planned for {found.cluster} under {forecast['layout']}"]
    lines += _compared(forecast, record.summary, found)
    if other:
        return [*lines, f"record   not counted: {other}, which says nothing of forecasts for {found.cluster}"]
    file = record.path.parent.parent / FILE
    _keep(file, found)
    return [*lines, f"record   {calibration_sentence(file, found.device, found.num_params)}"]


def calibration_sentence(file: Path, device: str, num_params: int) -> str:
    """How far the forecasts of audited runs like this one were off; empty where none was audited.

    Args:
        file: the record.
        device: that is planned; runs on others do not count.
        num_params: of the planned model; runs of models of another size do not count.

    Raises:
        RecordError: the record cannot be read at all.
    """
    audits, torn = read_audits(file)
    like = [each for each in audits if each.is_like(device, num_params)]
    said = []
    if like:
        said.append(
            f"{len(like)} audited run{'s' * (len(like) > 1)} here, on {device} and of a model of "
            f"like size, took {_spread([each.ratio for each in like])} times as long as forecast"
        )
    memory = [
        each.reserved_bytes / each.forecast_bytes
        for each in like
        if each.reserved_bytes and each.forecast_bytes
    ]
    if memory:
        said.append(f"reserved {_spread(memory)} times the memory")
    if torn:
        said.append(f"{len(torn)} line{'s' * (len(torn) > 1)} of {file} cannot be read and do not count")
    return "; ".join(said)


def read_audits(file: Path) -> Record:
    """The record; empty where there is none.

    Args:
        file: one audit a line.

    Raises:
        RecordError: it cannot be read at all.
    """
    found = Record([], [])
    if not file.exists():
        return found
    try:
        lines = [line for line in file.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise RecordError(
            f"{file} cannot be read: {error.strerror}. Move it away to begin a new record."
        ) from None
    for line in lines:
        try:
            found.audits.append(msgspec.json.decode(line, type=Audit))
        except msgspec.MsgspecError:  # torn by a full disk or a kill; the others are as good as before
            found.torn.append(line)
    return found


def _compared(forecast: Mapping[str, Any], summary: Mapping[str, Any], found: Audit) -> list[str]:
    """Step, memory, time and money, forecast and fact, and the layouts that were not taken."""
    error = float(forecast["error"])
    lines = ["step     " + _beside(found.forecast_step_s, found.step_s, error, "s")]
    lines.append("memory   " + _memory(forecast.get("reserved_bytes"), found.reserved_bytes))
    run_s, train_s = forecast.get("run_s"), summary.get("train_s")
    if run_s and train_s and summary.get("status") == "ended":
        lines.append("time     " + _beside(run_s, train_s, error, "s"))
    elif run_s:
        lines.append(f"time     forecast {format_seconds(run_s)}; the run did not reach its end")
    usd = summary.get("usd")
    if forecast.get("usd") and usd:
        lines.append("cost     " + _beside(forecast["usd"], usd, error, "usd"))
    others = [f"{each['layout']} at {format_seconds(each['step_s'])}" for each in forecast.get("others", [])]
    if others:
        faster = [
            each["layout"] for each in forecast["others"] if each["step_s"] * (1 + error) < found.step_s
        ]
        hint = f"; {faster[0]} is worth a try" if faster else ""
        lines.append(f"others   were forecast: {', '.join(others)} a step{hint}")
    return lines


def _memory(forecast: list[float] | None, fact: float | None) -> str:
    if not forecast:
        return "the plan kept no forecast of it"
    low, middle, high = forecast
    said = f"forecast {format_bytes(middle)} ({format_bytes(low)} to {format_bytes(high)}) reserved"
    if fact is None:
        return f"{said}; the run recorded no peak, which accelerators alone have"
    where = "inside" if low <= fact <= high else "outside"
    return f"{said}, fact {format_bytes(fact)}: {fact / middle - 1:+.0%}, {where} the error bar"


def _on_something_else(forecast: Mapping[str, Any], hardware: Mapping[str, Any]) -> str:
    """What the run was on, if that is not what was planned; empty where it is."""
    name, number = str(hardware.get("name", "unknown hardware")), hardware.get("num_ranks")
    cluster = str(forecast["cluster"])
    planned = str(forecast.get("device") or _device_in(cluster))
    plain = _MAKERS.sub("", name).replace(" ", "-").lower()
    is_same = plain == planned.lower() or plain.startswith(planned.lower() + "-")
    if is_same and number == forecast.get("num_devices", number):
        return ""
    return f"it ran on {number or 'some'} x {name}"


def _device_in(cluster: str) -> str:
    """Of "8xA100-40GB"; an older record has no other word for its device."""
    return cluster.partition("x")[2].strip()


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _keep(file: Path, found: Audit) -> None:
    """A second audit of a run takes the place of the first."""
    audits, torn = read_audits(file)
    known = [each for each in audits if each.run != found.run]
    text = b"".join(line + b"\n" for line in (*torn, *map(msgspec.json.encode, (*known, found))))
    beside = file.with_name(f".{file.name}.tmp")
    try:
        beside.write_bytes(text)
        beside.replace(file)
    except OSError as error:
        raise RecordError(f"cannot write {file}: {error.strerror}. Free some space.") from None


def _beside(forecast: float, fact: float, error: float, kind: str) -> str:
    where = "inside" if abs(fact - forecast) <= error * forecast else "outside"
    said = format_usd(fact) if kind == "usd" else format_seconds(fact)
    return (
        f"forecast {format_within(forecast, forecast * error, kind)}, fact {said}: {fact / forecast - 1:+.0%}, "
        f"{where} the error bar"
    )
