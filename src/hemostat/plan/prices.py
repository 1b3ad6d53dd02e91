"""What an hour of a machine costs: a table with a date and a source per price, or the user's own price."""

from __future__ import annotations

import csv
import datetime
import functools
import math
from pathlib import Path

import msgspec

from hemostat.errors import FieldError, UnknownNameError
from hemostat.units import format_usd, parse_usd

_TABLE = Path(__file__).parent / "instances.csv"
_STALE_DAYS = 180
_PER_HOUR = ("/hour", "/hr", "/h", "per hour", "an hour")


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine costs per hour, and how that is known.

    Attributes:
        usd_per_hour: US dollars per hour for the whole machine, without storage, traffic and tax.
        instance: name of the machine; "given" when the user gave only a price.
        kind: "on demand", "spot" (the median over zones), "sagemaker training" or "given".
        date: day of the price list (ISO), only its year where the list does not say, or empty.
        source: where it was read.
        low_usd_per_hour: cheapest zone for spot, else None. Zones of one region differ by 3 to 4 times.
        region: region of the price.
        accelerator: name of the accelerator.
        num_accelerators: how many of them the machine has; 0 when unknown.
    """

    usd_per_hour: float
    instance: str
    kind: str
    date: str
    source: str
    low_usd_per_hour: float | None = None
    region: str = ""
    accelerator: str = ""
    num_accelerators: int = 0

    def usd(self, seconds: float, num_machines: int = 1) -> float:
        """Cost in US dollars of so many seconds on so many of these machines.

        Examples:
            >>> price_usd_per_hour("p4d.24xlarge", given="$3.60/h").usd(1800, num_machines=2)
            3.6
        """
        return self.usd_per_hour * seconds / 3600.0 * num_machines

    def is_stale(self, today: datetime.date) -> bool:
        """Tell whether the price list is more than 180 days old, or has no day.

        Examples:
            >>> price_usd_per_hour("p4d.24xlarge").is_stale(datetime.date(2027, 7, 1))
            True
        """
        if self.kind == "given":
            return False
        try:
            return (today - datetime.date.fromisoformat(self.date)).days > _STALE_DAYS
        except ValueError:
            return True

    def warning(self, today: datetime.date) -> str:
        """Say that the price is old; empty where it is not.

        Examples:
            >>> price_usd_per_hour("p4d.24xlarge").warning(datetime.date(2027, 7, 1))
            'the price of p4d.24xlarge is of 2026-07-20 and may have changed; yours wins: plan.usd_per_hour'
        """
        if not self.is_stale(today):
            return ""
        day = f"of {self.date}" if self.date else "without a date"
        return f"the price of {self.instance} is {day} and may have changed; yours wins: plan.usd_per_hour"

    def sentence(self) -> str:
        """Say the price with its date and source.

        Examples:
            >>> price_usd_per_hour("p3.16xlarge").sentence().partition(" (")[0]
            'p3.16xlarge on demand in us-east-1: $24.48 an hour'
        """
        where = f" in {self.region}" if self.region else ""
        low = f" (cheapest zone {format_usd(self.low_usd_per_hour)})" if self.low_usd_per_hour else ""
        said = f"{self.instance} {self.kind}{where}: {format_usd(self.usd_per_hour)} an hour{low}"
        return said if self.kind == "given" else f"{said} ({self.source}, {self.date or 'no date'})"


def known_instances() -> tuple[str, ...]:
    """Names of all machines in the table, SageMaker's `ml.` names included."""
    return tuple(_rows())


def price_usd_per_hour(instance: str, *, spot: bool = False, given: str | float | None = None) -> Price:
    """Find the price of a machine.

    Args:
        instance: "p4d.24xlarge", "a3-highgpu-8g", "Standard_ND96isr_H100_v5", or "ml.p4d.24xlarge" for a
            SageMaker training job. With `given` any name may stand here.
        spot: the spot price instead of on demand.
        given: the user's own price, "$3.2/h" or a number of dollars per hour; it wins over the table.

    Raises:
        UnknownNameError: not in the table, and no price given.
        FieldError: the table has no such price for this machine, or `given` is not a price.

    Examples:
        >>> price_usd_per_hour("ml.p4d.24xlarge").usd_per_hour
        25.251286
        >>> price_usd_per_hour("my own box", given="$3.2/h").usd_per_hour
        3.2

    Source:
        instances.csv names the price list and its day for each price.
    """
    row = _rows().get(instance)
    if given is not None:
        return _given(instance, given, row or {})
    if row is None:
        raise UnknownNameError("instance", instance, _rows())
    sagemaker = instance == row["sagemaker_name"]
    if spot and sagemaker:
        raise FieldError("instance", instance, "has no published spot price", 'Give one: "$3.2/h".')
    column = "sagemaker_usd_per_hour" if sagemaker else "on_demand_usd_per_hour"
    text = row["spot_median_usd_per_hour"] if spot else row[column]
    kind = "spot" if spot else "sagemaker training" if sagemaker else "on demand"
    if not text:
        raise FieldError("instance", instance, f"the table has no {kind} price for it", 'Give one: "$3.2/h".')
    source = row["sagemaker_source"] if sagemaker else row["spot_source" if spot else "on_demand_source"]
    return Price(
        usd_per_hour=float(text),
        instance=instance,
        kind=kind,
        date=row["spot_date" if spot else "on_demand_date"],
        source=source,
        low_usd_per_hour=float(row["spot_low_usd_per_hour"]) if spot else None,
        region=row["region"],
        accelerator=row["accelerator"],
        num_accelerators=int(row["num_accelerators"]),
    )


def _given(instance: str, given: str | float, row: dict[str, str]) -> Price:
    if isinstance(given, str):
        text = given.strip()
        for ending in _PER_HOUR:
            text = text.removesuffix(ending).strip()
        usd = parse_usd(text, "price")
    else:
        usd = float(given)
    if not math.isfinite(usd) or usd < 0:
        raise FieldError("price", given, "must be dollars per hour, 0 or more", 'Write it like "$3.2/h".')
    return Price(
        usd_per_hour=usd,
        instance=instance or "given",
        kind="given",
        date="",
        source="given by the user",
        accelerator=row.get("accelerator", ""),
        num_accelerators=int(row.get("num_accelerators", 0)),
    )


@functools.cache
def _rows() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["instance"]] = row
            if row["sagemaker_name"]:
                found[row["sagemaker_name"]] = row
    return found
