"""The page that asks for the money adds up, and says how sure it is and what would cost less."""

from __future__ import annotations

import re

import msgspec
import pytest

from hemostat.errors import FieldError
from hemostat.plan import Plan
from hemostat.report import plan_text
from hemostat.report.plan_ask import DEVELOPMENT, RESERVE, parts_of


@pytest.fixture(scope="module")
def text(plan) -> str:
    return plan_text(plan, "ask")


def dollars(text: str) -> float:
    """Of "$67 ±8" or "$2.8M ±0.5M"."""
    number, scale = re.match(r"\$([\d.,]+)([kMB]?)", text).groups()
    return float(number.replace(",", "")) * {"": 1, "k": 1e3, "M": 1e6, "B": 1e9}[scale]


def rows_of(text: str) -> dict[str, list[str]]:
    cells = [
        [cell.strip() for cell in row.split("|")[1:-1]] for row in text.splitlines() if row.startswith("| ")
    ]
    return {row[0]: row for row in cells}


def test_the_sum_is_that_of_the_parts_and_of_the_title(plan, text):
    rows, usd, error = rows_of(text), plan.best.cost.usd, plan.best.step.error
    names = ("pilot", "search", "final run", "reserve")
    shares = [float(rows[name][1].rstrip("%")) / 100 for name in names]
    assert float(rows["sum"][1].rstrip("%")) / 100 == pytest.approx(sum(shares), abs=0.002)
    assert sum(shares[:2]) == pytest.approx(DEVELOPMENT, abs=0.001)
    assert shares[3] == pytest.approx(RESERVE * sum(shares[:3]), abs=0.001)
    for name, share in zip((*names, "sum"), (*shares, sum(shares)), strict=True):
        assert dollars(rows[name][3]) == pytest.approx(usd * share, rel=0.05), name
        assert "±" in rows[name][2] and "±" in rows[name][3], name
    assert dollars(re.search(r"# Request for (.*)", text)[1]) == dollars(rows["sum"][3])
    assert float(rows["final run"][3].partition("±")[2]) == pytest.approx(usd * error, rel=0.1)


def test_every_share_has_its_reason_and_its_source(text):
    assert "arXiv 2503.05804" in text and "arXiv 2407.21783, section 3.3.4" in text
    assert all(rows_of(text)[name][4] for name in ("pilot", "search", "final run", "reserve"))


@pytest.mark.parametrize("num_steps", [10, 2_000, 1_000_000])
def test_pilot_and_search_are_half_of_the_final_run_however_long_it_is(num_steps):
    pilot, search, final, _ = parts_of(num_steps)
    assert pilot.share + search.share == pytest.approx(DEVELOPMENT * final.share)
    assert pilot.share <= 0.1


def test_half_of_the_tokens_is_half_of_everything(text):
    half = re.search(r"\* Half of the tokens: half of everything, (\$\S+)", text)[1]
    assert dollars(half) == pytest.approx(dollars(rows_of(text)["sum"][3]) / 2, rel=0.05)


def test_it_says_its_price_and_what_is_cheaper_and_what_twice_the_devices_save(plan, text):
    assert plan.goal.price.sentence() in text and "gives up" in text
    assert re.search(r"\* 1x p4d\.24xlarge on spot .*: \$\S+ to \$\S+ for everything, .* \d+% less", text)
    assert "## Faster" in text and "16 devices" in text


def test_without_a_fit_or_a_length_there_is_nothing_to_ask_for(nothing, numbers):
    with pytest.raises(FieldError, match=r"nothing fits\. What would: --cluster"):
        plan_text(nothing, "ask")
    with pytest.raises(FieldError, match="needs a length and a price"):
        plan_text(Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", {}), "ask")


def test_a_spot_plan_has_a_range_of_dollars(numbers):
    made = Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", {"num_tokens": 6.4e9, "spot": True})
    low, high = map(dollars, re.findall(r"\$[\d.,]+[kM]?", rows_of(plan_text(made, "ask"))["final run"][3]))
    error = made.best.step.error
    assert low == pytest.approx(made.best.cost.low_usd * (1 - error), rel=0.05)
    assert high == pytest.approx(made.best.cost.usd * (1 + error), rel=0.05)


def test_its_notes_are_the_plans(plan):
    told = msgspec.structs.replace(plan, notes=("a thing to know",))
    assert "* a thing to know" in plan_text(told, "ask")
