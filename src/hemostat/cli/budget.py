"""The project's budget over all recorded runs: the page of `hemostat runs budget`, warnings, and the refusal."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hemostat.cli.project import FILE, Project, read_project
from hemostat.config import Config, decode
from hemostat.errors import BudgetStop, FieldError
from hemostat.plan import price_usd_per_hour
from hemostat.recipe import budget as arithmetic
from hemostat.recipe import caps
from hemostat.track import ledger
from hemostat.units import format_seconds, format_usd

_DAYS = 7
_DAY_S = 86400.0
_BAR = 30


def print_page(root: Path, as_json: bool) -> None:
    """What `hemostat runs budget` does."""
    print(budget_page(read_project(), root, as_json))


def budget_page(project: Project, root: Path, as_json: bool) -> str:
    """What was spent, of how much, and how long the rest lasts; at most 12 lines."""
    now, spent = time.time(), ledger.read_ledger(root)
    lines = arithmetic.burn_down(project.budget, spent, now)
    if as_json:
        return json.dumps(_plain(project, lines, spent, now), indent=1)
    unpriced = sum(run.usd is None for run in spent)
    page = [f"budget   {_what(project)}; {len(spent)} run{'s' * (len(spent) != 1)} in {root}"]
    for line in lines:
        bar = "#" * min(_BAR, round(_BAR * line.share))
        amounts = f"{_amount(line, line.spent)} of {_amount(line, line.limit)} ({line.share:.0%})"
        page.append(f"{line.name:<8} [{bar:<{_BAR}}] {amounts}")
        page.append(f"{'':<8} {_forecast(project, line, now)}")
    if not lines:
        usd, seconds = sum(run.usd or 0.0 for run in spent), sum(run.seconds for run in spent)
        page.append(f"spent    {format_usd(usd)}, {format_seconds(seconds)}")
        page.append(
            f"next     write into {FILE}: [budget] usd = 500, hours = 40, until = 2027-01-31 (any of them)"
        )
    if unpriced:
        page.append(
            f"note     {unpriced} of the runs have no price, so their dollars are missing (train.usd_per_hour)"
        )
    page.append(f"by day   {_by_day(spent, now)}")
    return "\n".join(page)


def _what(project: Project) -> str:
    until = project.budget.until
    if until is None and not project.budget.limits:
        return "none is set"
    return f"of {FILE}" + (f", until {until}" if until else "")


def _amount(line: arithmetic.Line, value: float) -> str:
    return format_usd(value) if line.name == "usd" else format_seconds(3600 * value)


def _forecast(project: Project, line: arithmetic.Line, now: float) -> str:
    parts = [f"{_amount(line, line.per_day)} a day of late"]
    if line.share >= 1:
        parts.append("used up")
    elif line.lasts_until is not None:
        parts.append(f"the rest lasts until {_day(line.lasts_until)}")
    if line.at_end is not None and project.budget.until is not None:
        parts.append(f"{_amount(line, line.at_end)} by {project.budget.until} at that rate")
    return "; ".join(parts)


def _day(moment: float) -> str:
    capped = min(moment, 4e9)  # a rate near 0 lasts beyond any calendar
    return time.strftime("%Y-%m-%d", time.gmtime(capped))


def _by_day(spent: list[Any], now: float) -> str:
    today = now - now % _DAY_S  # in UTC, as the last day of a project
    cells = []
    for day in (today - _DAY_S * back for back in range(_DAYS - 1, -1, -1)):
        shares = [(run, run.share_between(day, day + _DAY_S)) for run in spent]
        usd = sum(share * (run.usd or 0.0) for run, share in shares)
        seconds = sum(share * run.seconds for run, share in shares)
        if seconds:
            cells.append(f"{_day(day)[5:]} {format_usd(usd) if usd else format_seconds(seconds)}")
    return "  ".join(cells) or f"nothing in the last {_DAYS} days"


def _plain(project: Project, lines: list[Any], spent: list[Any], now: float) -> dict[str, Any]:
    return {
        "until": str(project.budget.until) if project.budget.until else None,
        "time": now,
        "limits": [
            {
                "name": line.name,
                "limit": line.limit,
                "spent": line.spent,
                "share": line.share,
                "per_day": line.per_day,
                "lasts_until": line.lasts_until,
                "at_end": line.at_end,
            }
            for line in lines
        ],
        "runs": [
            {
                "run": run.run,
                "started": run.started,
                "ended": run.ended,
                "seconds": run.seconds,
                "usd": run.usd,
            }
            for run in spent
        ],
    }


class _Asked(Config, frozen=True, kw_only=True):
    """What of [train] is about money, as it is written."""

    max_hours: float | str | None = None
    max_usd: float | str | None = None
    usd_per_hour: float | None = None
    instance: str | None = None
    over_budget: bool = False


def allowed(values: Mapping[str, Any], root: Path) -> Project:
    """Check what can be known of money before anything is started.

    Args:
        values: settings of a run.
        root: the folder of all runs.

    Returns:
        The project.

    Raises:
        FieldError: caps that are no amounts, or dollars without a price.
        BudgetStop: the project's budget is spent.
    """
    engine = values.get("train", {})
    if not isinstance(engine, Mapping):
        raise FieldError("train", engine, "is a section, not a value", "Write it like --set train.seed=3.")
    given = {name: item for name, item in engine.items() if name in _Asked.__struct_fields__}
    asked = decode(_Asked, given, prefix="train.")
    price = asked.usd_per_hour
    if price is None and asked.instance is not None:
        price = price_usd_per_hour(asked.instance).usd_per_hour
    caps.Caps.read(asked.max_hours, asked.max_usd, price)
    project = read_project()
    refuse_past_budget(project, root, told=asked.over_budget)
    return project


def refuse_past_budget(project: Project, root: Path, *, told: bool) -> None:
    """Refuse to start where the project has spent its budget or its last day is over.

    Args:
        project: of the current folder.
        root: the folder of all runs.
        told: go on all the same.

    Raises:
        BudgetStop: it has.
    """
    if told:
        return
    until, now = project.budget.until, time.time()
    fix = f"Raise it in {FILE}, or --set train.over_budget=true for this run."
    if until is not None and now >= arithmetic.end_of(until):
        raise BudgetStop(f"budget.until={until}: the project's last day is over. {fix}")
    if not project.budget.limits or not root.is_dir():
        return
    for line in arithmetic.burn_down(project.budget, ledger.read_ledger(root), now):
        if line.share >= 1:
            raise BudgetStop(
                f"budget.{line.name}={_amount(line, line.limit)}: {_amount(line, line.spent)} is spent by all "
                f"runs. {fix}"
            )


def new_budget_lines(project: Project, root: Path) -> list[str]:
    """A sentence for each line (50, 80, 100 %) that was crossed since this was asked last; each comes once."""
    if not project.budget.limits:
        return []
    now, found = time.time(), []
    for line in arithmetic.burn_down(project.budget, ledger.read_ledger(root), now):
        new = [
            mark
            for mark in arithmetic.marks_passed(line.share)
            if ledger.first_time(root, f"budget.{line.name}={line.limit:g}", mark)
        ]
        if new:  # a run that crosses two lines at once brings one message
            found.append(
                f"{line.share:.0%} of the project's budget is spent: {_amount(line, line.spent)} of "
                f"{_amount(line, line.limit)}; {_forecast(project, line, now)}"
            )
    return found
