"""What fits, and what the money or the days at hand buy."""

from __future__ import annotations

import re

import pytest

from hemostat.plan import Plan
from hemostat.report import plan_text


@pytest.fixture(scope="module")
def fitted(plan, numbers) -> Plan:
    return plan.with_largest(numbers)


def bought(text: str, start: str) -> float:
    number, suffix = re.search(rf"^{re.escape(start)} +([\d.]+)([kMBT])", text, re.MULTILINE).groups()
    return float(number) * {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[suffix]


def test_a_thousand_dollars_and_a_day_where_nobody_says_more(fitted):
    text = plan_text(fitted, "fit")
    assert text.count("fits ") == 3
    expected = fitted.best.step.tokens_per_s * 86400
    assert bought(text, "1 day") == pytest.approx(expected, rel=0.1)
    assert bought(text, "$1,000") == pytest.approx(expected / fitted.goal.price.usd(86400) * 1000, rel=0.1)


def test_what_somebody_has_is_what_is_counted(fitted):
    text = plan_text(fitted, "fit", usd=500.0, days=3.0)
    assert "$1,000" not in text and "1 day " not in text
    assert bought(text, "3 days") == pytest.approx(3 * bought(plan_text(fitted, "fit"), "1 day"), rel=0.1)
    assert bought(text, "$500") == pytest.approx(bought(plan_text(fitted, "fit"), "$1,000") / 2, rel=0.1)


def test_every_amount_has_its_error_bar(fitted):
    lines = plan_text(fitted, "fit").splitlines()
    assert all("±" in line for line in lines if line.startswith(("1 day", "$")))


def test_two_machines_cost_twice_as_much(numbers):
    profile = Plan.profile_of_numbers(numbers)
    one, two = (Plan.make(profile, f"{count}x p4d.24xlarge", {}) for count in (1, 2))
    days = [re.search(r"at (\$[\d.,]+) a day", plan_text(each, "fit"))[1] for each in (one, two)]
    first, second = (float(day[1:].replace(",", "")) for day in days)
    assert second == pytest.approx(2 * first, abs=0.02)
