"""The page that asks for the money adds up, and says how sure it is."""

from __future__ import annotations

import re

import pytest

from hemostat.errors import FieldError
from hemostat.plan import Plan
from hemostat.report import plan_text


def dollars(text: str) -> float:
    return float(text.replace("$", "").replace(",", ""))


def test_the_sum_is_that_of_the_parts_and_of_the_title(plan):
    text = plan_text(plan, "ask")
    rows = {row.split("|")[1].strip(): row.split("|") for row in text.splitlines() if row.startswith("| ")}
    parts = [dollars(rows[name][3].split()[0]) for name in ("pilot", "search", "final run", "reserve")]
    total = dollars(rows["sum"][3].split()[0])
    assert total == pytest.approx(sum(parts), abs=0.05)
    assert dollars(re.match(r"# Request for (\S+)", text)[1]) == pytest.approx(total, abs=0.01)
    assert parts[2] == pytest.approx(plan.best.cost.usd, abs=0.01)
    low, high = (dollars(each) for each in re.findall(r"\$[\d,.]+", rows["final run"][3])[1:])
    error = plan.best.step.error
    assert (low, high) == pytest.approx((parts[2] * (1 - error), parts[2] * (1 + error)), abs=0.01)


def test_it_says_its_price_and_what_is_cheaper(plan):
    text = plan_text(plan, "ask")
    assert plan.goal.price.sentence() in text and "gives up" in text


def test_without_a_fit_or_a_length_there_is_nothing_to_ask_for(nothing, numbers):
    with pytest.raises(FieldError, match="nothing fits"):
        plan_text(nothing, "ask")
    with pytest.raises(FieldError, match="needs a length and a price"):
        plan_text(Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", {}), "ask")
