"""A plan with everything in it, and one for which nothing fits."""

from __future__ import annotations

import pytest

from hemostat.plan import Plan


@pytest.fixture(scope="session")
def numbers() -> dict[str, float]:
    """The story's model."""
    return {"num_params": 320e6, "num_layers": 24, "hidden": 1024}


@pytest.fixture(scope="session")
def plan(numbers) -> Plan:
    values = {"num_tokens": 6.4e9, "global_batch": 1024, "layout": {"dp": 8}, "micro_batch": 128}
    return Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", values)


@pytest.fixture(scope="session")
def nothing() -> Plan:
    return Plan.make(Plan.profile_of_numbers({"num_layers": 96, "hidden": 12288}), "8xV100-16GB", {})
