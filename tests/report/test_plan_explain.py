"""Plain words with this plan's own figures."""

from __future__ import annotations

import re

import pytest

from hemostat.plan import Plan
from hemostat.report import plan_text
from hemostat.report.plan_explain import _GROWING
from hemostat.units import format_bytes, parse_bytes


def said(plan: Plan) -> str:
    return " ".join(plan_text(plan, "explain").split()).replace("micro- batch", "micro-batch")


def test_every_figure_is_the_plans(plan):
    text = said(plan)
    assert "each of the 320,000,000 parameters takes 16 bytes" in text
    assert format_bytes(16 * 320e6) in text and format_bytes(plan.best.memory.allocated.num_bytes) in text
    assert "dp=8" in text and "fsdp=8 gives each device a share" in text


@pytest.mark.parametrize(
    ("sizes", "cluster"),
    [
        ({"num_params": 320e6, "num_layers": 24, "hidden": 1024}, "8xA100-40GB"),
        ({"num_params": 7e9, "num_layers": 32, "hidden": 4096}, "16xA100-80GB"),
        ({"num_layers": 80, "hidden": 8192}, "64xH100-80GB"),
    ],
)
def test_what_is_held_and_what_grows_are_together_the_peak(sizes, cluster):
    plan = Plan.make(Plan.profile_of_numbers(sizes), cluster, {})
    text = said(plan)
    held = re.search(r"a device holds ([\d.]+ \w+) at the peak", text)[1]
    total, growing = re.search(r"The rest of its ([\d.]+ \w+), ([\d.]+ \w+), are", text).groups()
    assert parse_bytes(held) + parse_bytes(growing) == pytest.approx(parse_bytes(total), rel=0.02)
    items = plan.best.memory.peak.items
    assert parse_bytes(growing) == pytest.approx(
        sum(item.num_bytes for item in items if item.name.startswith(_GROWING)), rel=0.06
    )
    states = {"weights", "gradients", "optimizer state", "whole gradients", "gathered parameters", "buffers"}
    assert not any(item.name.startswith(_GROWING) for item in items if item.name in states)


def test_traffic_that_is_hidden_has_no_seconds(plan):
    assert " 0.0 s of each step" not in said(plan)


def test_stages_are_told_from_the_devices_that_have_several(numbers):
    plan = Plan.make(Plan.profile_of_numbers(numbers), "8xA100-40GB", {})
    staged = next(each.layout for each in plan.found.choices if each.layout.pp > 1)
    text = said(plan)
    assert f"cuts the model into {staged.num_stages} stages" in text
    assert ("groups of devices" in text) == (staged.stages_per_rank > 1)


def test_lines_are_no_longer_than_a_terminal(plan):
    assert max(map(len, plan_text(plan, "explain").splitlines())) <= 100


def test_nothing_to_explain_says_what_would_fit(nothing):
    assert "nothing to explain. What would:" in plan_text(nothing, "explain")
    assert "--cluster" in plan_text(nothing, "explain")
