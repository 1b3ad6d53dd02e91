"""Budget: a hard cap in hours, device-hours or dollars, and what one run costs against it before it starts."""

from __future__ import annotations

import math
from typing import Any

from hemostat.config import Config
from hemostat.errors import FieldError
from hemostat.units import format_seconds, format_usd

_HOUR_S = 3600.0


class Budget(Config, frozen=True, kw_only=True):
    """What a study may use; of several caps the one that is reached first counts. Without any, there is no limit.

    Attributes:
        max_s: of the study's clock, however many trials run side by side.
        max_device_s: seconds of devices.
        max_usd: dollars; needs the price.
        num_devices: of one trial.
        usd_per_device_hour: price.
        s_per_unit: forecast of the seconds of a trial per unit of position, used until something is measured.
        save_s: forecast of the seconds that a trial needs to save and to leave; more counts once it is measured.
        speed: names of the parameters that change how long a unit of position takes, such as the batch.
    """

    max_s: float | None = None
    max_device_s: float | None = None
    max_usd: float | None = None
    num_devices: int = 1
    usd_per_device_hour: float = 0.0
    s_per_unit: float | None = None
    save_s: float = 0.0
    speed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in ("max_s", "max_device_s", "max_usd", "s_per_unit"):
            value = getattr(self, field)
            if value is not None and not 0 < value < math.inf:
                raise FieldError(field, value, "must be above 0", "Leave it out where there is no limit.")
        if self.num_devices < 1:
            raise FieldError(
                "num_devices", self.num_devices, "must be at least 1", "Count the devices of a trial."
            )
        for field in ("usd_per_device_hour", "save_s"):
            if not 0 <= getattr(self, field) < math.inf:
                raise FieldError(field, getattr(self, field), "must not be negative", "Give 0 or more.")
        if self.max_usd is not None and self.usd_per_device_hour == 0:
            fix = "Give the dollars of one device for one hour, or cap hours instead."
            raise FieldError("usd_per_device_hour", 0.0, "is needed for a cap in dollars", fix)

    @property
    def max_busy_s(self) -> float:
        """Seconds that trials may run in all, each on its own devices; infinite without a cap on them.

        Examples:
            >>> Budget(max_usd=40.0, usd_per_device_hour=2.0, num_devices=4).max_busy_s / 3600
            5.0
        """
        caps = [math.inf]
        if self.max_device_s is not None:
            caps.append(self.max_device_s / self.num_devices)
        if self.max_usd is not None:
            caps.append(self.max_usd / self.usd_per_s)
        return min(caps)

    @property
    def usd_per_s(self) -> float:
        """Dollars of one running trial."""
        return self.usd_per_device_hour * self.num_devices / _HOUR_S

    def key(self, config: dict[str, Any]) -> tuple[str, ...]:
        """What configurations that take equally long have in common."""
        return tuple(str(config.get(name)) for name in self.speed)

    def unspent(self, clock_s: float, busy_s: float) -> str:
        """What is left of each cap, in words; empty without a cap.

        Examples:
            >>> Budget(max_s=7200.0).unspent(clock_s=5400.0, busy_s=20_000.0)
            '30m00s of 2h00m'
        """
        parts = []
        if self.max_s is not None:
            parts.append(f"{format_seconds(max(0.0, self.max_s - clock_s))} of {format_seconds(self.max_s)}")
        if self.max_device_s is not None:
            left_s = max(0.0, self.max_device_s - busy_s * self.num_devices)
            parts.append(f"{left_s / _HOUR_S:.3g} of {self.max_device_s / _HOUR_S:.3g} device-hours")
        if self.max_usd is not None:
            left_usd = max(0.0, self.max_usd - busy_s * self.usd_per_s)
            parts.append(f"{format_usd(left_usd)} of {format_usd(self.max_usd)}")
        return ", ".join(parts)


class Estimate(Config, frozen=True, kw_only=True):
    """What a study costs, before it starts.

    Attributes:
        run_s: seconds of one whole run, saving included.
        run_usd: dollars of it; 0 where no price is known.
        num_runs: whole runs that the budget pays for; None without a cap.
        max_usd: the most that the study can cost; None where no cap or no price says it.
    """

    run_s: float
    run_usd: float
    num_runs: int | None
    max_usd: float | None


def estimate(budget: Budget, length: int, num_workers: int) -> Estimate:
    """Price a study before it starts.

    Args:
        budget: with the forecast `s_per_unit`.
        length: where a run ends, in units of position.
        num_workers: trials side by side.

    Raises:
        FieldError: there is no forecast; the budget does not pay for one run: says the least that does.

    Examples:
        >>> estimate(Budget(max_s=3600.0, s_per_unit=2.0), length=300, num_workers=5).num_runs
        30
    """
    if budget.s_per_unit is None:
        fix = "Let one trial run first, or give the seconds of one unit of position."
        raise FieldError("s_per_unit", None, "is needed for an estimate", fix)
    run_s = budget.s_per_unit * length + budget.save_s
    check_least(budget, run_s)
    counts, busy_s = [], budget.max_busy_s
    if math.isfinite(busy_s):
        counts.append(int(busy_s / run_s))
    if budget.max_s is not None:
        counts.append(int(budget.max_s / run_s) * num_workers)
        busy_s = min(busy_s, budget.max_s * num_workers)
    return Estimate(
        run_s=run_s,
        run_usd=run_s * budget.usd_per_s,
        num_runs=min(counts, default=None),
        max_usd=busy_s * budget.usd_per_s if counts and budget.usd_per_s else None,
    )


def check_least(budget: Budget, run_s: float) -> None:
    """Refuse a budget that cannot pay for a single run.

    Args:
        budget: with its caps.
        run_s: seconds of one whole run, saving included.

    Raises:
        FieldError: with the least that makes sense.
    """
    rule = "is less than one run"
    if budget.max_s is not None and budget.max_s < run_s:
        raise FieldError(
            "max_s", budget.max_s, rule, f"Give at least {format_seconds(run_s)}, or shorten the run."
        )
    if budget.max_device_s is not None and budget.max_device_s < run_s * budget.num_devices:
        least = f"{run_s * budget.num_devices / _HOUR_S:.3g} device-hours"
        raise FieldError(
            "max_device_s", budget.max_device_s, rule, f"Give at least {least}, or shorten the run."
        )
    if budget.max_usd is not None and budget.max_usd < run_s * budget.usd_per_s:
        least = format_usd(run_s * budget.usd_per_s)
        raise FieldError("max_usd", budget.max_usd, rule, f"Give at least {least}, or shorten the run.")
