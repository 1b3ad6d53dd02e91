"""The budget of a project over all its runs: how much is left, and how long it lasts at the rate of late."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec

from hemostat.config import Config
from hemostat.recipe.caps import read_hours, read_usd

WARN_AT = (0.5, 0.8)
RATE_DAYS = 7.0
_DAY_S = 86400.0


class ProjectBudget(Config, frozen=True, kw_only=True):
    """`[budget]` of hemostat.toml: what all runs of a project together may spend.

    Attributes:
        usd: dollars, 500 or "$500".
        hours: hours of runs, 40 or "40h"; a run counts its wall time once, on however many devices.
        until: last day of the project.
    """

    usd: float | str | None = None
    hours: float | str | None = None
    until: datetime.date | None = None

    def __post_init__(self) -> None:
        """Amounts are amounts."""
        if self.usd is not None:
            read_usd(self.usd, "budget.usd")
        if self.hours is not None:
            read_hours(self.hours, "budget.hours")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set: "usd" in dollars and "hours" in hours."""
        found = {}
        if self.usd is not None:
            found["usd"] = read_usd(self.usd, "budget.usd")
        if self.hours is not None:
            found["hours"] = read_hours(self.hours, "budget.hours") / 3600.0
        return found


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What one run has spent.

    Attributes:
        run: its id.
        started: seconds since 1970.
        ended: seconds since 1970; of the last thing heard of it.
        seconds: of all its attempts together.
        usd: None where its price is not known.
    """

    run: str
    started: float
    ended: float
    seconds: float
    usd: float | None = None

    def share_between(self, start: float, end: float) -> float:
        """The part of what it has spent that falls between two moments, as if it had spent evenly.

        Examples:
            >>> run = Spent(run="a", started=0.0, ended=20 * 86400.0, seconds=20 * 86400.0)
            >>> run.share_between(13 * 86400.0, 20 * 86400.0), run.share_between(30 * 86400.0, 40 * 86400.0)
            (0.35, 0.0)
        """
        length_s = self.ended - self.started
        if length_s <= 0:  # too short, or the clock was set back
            return float(start <= self.started < end)
        return max(0.0, min(self.ended, end) - max(self.started, start)) / length_s


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """How one limit of a budget stands.

    Attributes:
        name: "usd" or "hours".
        limit: of the budget.
        spent: by all runs.
        per_day: over the last seven days, or since the first run, but at least one day, where that is shorter.
        lasts_until: when it will be used up at that rate (seconds since 1970); None at rate 0.
        at_end: what will be spent on the last day at that rate; None without a last day.
    """

    name: str
    limit: float
    spent: float
    per_day: float
    lasts_until: float | None
    at_end: float | None

    @property
    def share(self) -> float:
        """Spent over the limit."""
        return self.spent / self.limit


def burn_down(budget: ProjectBudget, spent: Sequence[Spent], now: float) -> list[Line]:
    """How each limit of a budget stands and where it leads.

    Args:
        budget: of the project.
        spent: by each run.
        now: seconds since 1970.

    Examples:
        >>> runs = [Spent(run="a", started=0.0, ended=36000.0, seconds=36000.0, usd=20.0)]
        >>> (line,) = burn_down(ProjectBudget(usd=100), runs, now=86400.0 * 2)
        >>> line.share, line.per_day, line.lasts_until / 86400.0
        (0.2, 10.0, 10.0)

    Source: a straight line through the last seven days; a convention of this project.
    """
    amounts = {
        "usd": [(run, run.usd or 0.0) for run in spent],
        "hours": [(run, run.seconds / 3600.0) for run in spent],
    }
    return [_line(budget, name, limit, amounts[name], now) for name, limit in budget.limits.items()]


def _line(
    budget: ProjectBudget, name: str, limit: float, amounts: Sequence[tuple[Spent, float]], now: float
) -> Line:
    total = sum(amount for _, amount in amounts)
    first = min((run.started for run, _ in amounts), default=now)
    days = min(RATE_DAYS, max(1.0, (now - first) / _DAY_S))
    late = sum(amount * run.share_between(now - days * _DAY_S, now) for run, amount in amounts)
    per_day = late / days
    at_end = None
    if budget.until is not None:
        at_end = total + per_day * max(0.0, end_of(budget.until) - now) / _DAY_S
    lasts = now + _DAY_S * max(0.0, limit - total) / per_day if per_day > 0 else None
    return Line(name=name, limit=limit, spent=total, per_day=per_day, lasts_until=lasts, at_end=at_end)


def end_of(day: datetime.date) -> float:
    """The end of a day in UTC, in seconds since 1970.

    Examples:
        >>> end_of(datetime.date(1970, 1, 1))
        86400.0
    """
    midnight = datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
    return (midnight + datetime.timedelta(days=1)).timestamp()


def marks_passed(share: float) -> tuple[int, ...]:
    """The lines that a share of the budget has crossed, in per cent.

    Examples:
        >>> marks_passed(0.49), marks_passed(0.8), marks_passed(1.2)
        ((), (50, 80), (50, 80, 100))

    Source: a convention of this project.
    """
    return tuple(round(100 * mark) for mark in (*WARN_AT, 1.0) if share >= mark)
