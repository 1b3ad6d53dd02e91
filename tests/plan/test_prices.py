"""The price table: every row dated and sourced, and the user's own price before any of them."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import pytest

import hemostat.plan
from hemostat.errors import FieldError, UnknownNameError
from hemostat.plan.prices import known_instances, price_usd_per_hour

TABLE = Path(hemostat.plan.__file__).parent / "instances.csv"


@pytest.fixture(scope="module")
def rows():
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_price_has_its_source_and_date(rows):
    assert len(rows) == 92
    for row in rows:
        if row["on_demand_usd_per_hour"]:
            assert datetime.date.fromisoformat(row["on_demand_date"]) <= datetime.date(2026, 11, 30)
            assert row["on_demand_source"]
        if row["spot_median_usd_per_hour"]:
            assert row["spot_source"]
            assert row["spot_date"]
            low, median = float(row["spot_low_usd_per_hour"]), float(row["spot_median_usd_per_hour"])
            assert 0 < low <= median
        if row["sagemaker_usd_per_hour"]:
            assert row["sagemaker_source"]


def test_every_known_machine_has_some_price_or_says_that_it_has_none():
    without = []
    for name in known_instances():
        try:
            price = price_usd_per_hour(name)
        except FieldError as error:
            assert "has no" in str(error)
            without.append(name)
            continue
        assert 0.1 < price.usd_per_hour < 500
        assert price.num_accelerators >= 1
    assert sorted(without) == [
        "ml.p5e.48xlarge",
        "ml.trn2.48xlarge",
        "p5e.48xlarge",
        "trn2.3xlarge",
        "trn2.48xlarge",
    ]


@pytest.mark.parametrize(
    ("name", "usd", "kind", "date"),
    [
        ("p3.16xlarge", 24.48, "on demand", "2026-07-20"),
        ("p5.48xlarge", 55.04, "on demand", "2026-07-20"),
        ("a3-highgpu-8g", 88.49, "on demand", "2026-08-03"),
        ("Standard_ND96isr_H100_v5", 98.32, "on demand", "2026-06-18"),
        ("ml.p3.16xlarge", 30.6, "sagemaker training", "2026-07-20"),
    ],
)
def test_prices_of_the_lists(name, usd, kind, date):
    price = price_usd_per_hour(name)
    assert (price.usd_per_hour, price.kind, price.date) == (usd, kind, date)
    assert price.source
    assert date in price.sentence()


def test_spot_shows_its_range_and_derived_prices_say_so():
    spot = price_usd_per_hour("p4d.24xlarge", spot=True)
    assert (spot.low_usd_per_hour, spot.usd_per_hour, spot.kind) == (2.4655, 8.0001, "spot")
    assert "cheapest zone $2.47" in spot.sentence()
    assert spot.is_stale(datetime.date(2026, 11, 30))  # its list names no day
    assert "unverified" in price_usd_per_hour("ml.p5en.48xlarge").source


def test_age():
    price = price_usd_per_hour("p5.48xlarge")
    assert not price.is_stale(datetime.date(2026, 11, 30))
    assert price.is_stale(datetime.date(2027, 3, 1))
    assert not price_usd_per_hour("p5.48xlarge", given=3).is_stale(datetime.date(2030, 1, 1))


@pytest.mark.parametrize("given", ["$3.2/h", "3.2", 3.2, "3.2 USD", "$3.2 per hour", "$3.2/hr", "$3.2/hour"])
def test_the_users_price_wins(given):
    price = price_usd_per_hour("p4d.24xlarge", given=given)
    assert (price.usd_per_hour, price.kind, price.num_accelerators) == (3.2, "given", 8)
    assert price.sentence() == "p4d.24xlarge given: $3.20 an hour"
    assert price_usd_per_hour("a box under the desk", given=given).usd_per_hour == 3.2


def test_cost():
    assert price_usd_per_hour("", given=36).usd(100, num_machines=3) == pytest.approx(3.0)


@pytest.mark.parametrize("given", ["cheap", "-1", -1.0, float("nan"), "$3/day", ""])
def test_prices_that_are_none(given):
    with pytest.raises(FieldError, match=r"^price="):
        price_usd_per_hour("p4d.24xlarge", given=given)


def test_machines_that_are_not_in_the_table():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'p4d\.24xlarge'"):
        price_usd_per_hour("p4d.24xlage")
    with pytest.raises(FieldError, match="no published spot price"):
        price_usd_per_hour("ml.p4d.24xlarge", spot=True)
    with pytest.raises(FieldError, match="the table has no spot price"):
        price_usd_per_hour("Standard_NC6s_v3", spot=True)
