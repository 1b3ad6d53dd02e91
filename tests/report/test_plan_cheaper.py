"""Other ways to the same model, each with a plan and a price of its own."""

from __future__ import annotations

import pytest

from hemostat.plan import Plan, price_usd_per_hour
from hemostat.report.plan_cheaper import others


@pytest.fixture(scope="module")
def old(numbers) -> Plan:
    return Plan.make(
        Plan.profile_of_numbers(numbers), "2x p3.16xlarge", {"num_tokens": 6.4e9, "global_batch": 1024}
    )


def test_spot_fewer_and_newer_machines_are_priced_by_plans_of_their_own(old):
    found = others(old)
    assert [each.usd for each in found] == sorted(each.usd for each in found)
    by_name = {each.what.partition(",")[0].partition(" (")[0]: each for each in found}
    half = by_name["1x p3.16xlarge"]
    assert half.days > old.best.cost.days and "times as much" in half.gives_up
    newest = next(each for name, each in by_name.items() if "B200" in name)
    assert newest.usd < old.best.cost.usd / 2 and "faster too" in newest.gives_up


def test_spot_costs_as_much_less_as_its_price(plan):
    spot = next(each for each in others(plan) if "on spot" in each.what)
    prices = [price_usd_per_hour("p4d.24xlarge", spot=is_spot).usd_per_hour for is_spot in (True, False)]
    assert spot.usd / plan.best.cost.usd == pytest.approx(prices[0] / prices[1])
    assert spot.low_usd < spot.usd and spot.days == plan.best.cost.days


def test_without_a_length_nothing_has_a_cost(numbers):
    assert others(Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", {})) == []


def test_a_price_of_ones_own_has_no_spot(numbers):
    told = {"num_tokens": 1e9, "usd_per_hour": 3.0}
    made = Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", told)
    assert not any("spot" in each.what for each in others(made))
