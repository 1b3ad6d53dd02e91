"""The page of `hemostat plan`: what it must say, in how many lines."""

from __future__ import annotations

import itertools
import re

import msgspec
import pytest

from hemostat.plan import Plan
from hemostat.report import plan_text
from hemostat.report.plan_page import MAX_LINES, double_sentence, short

MORE = ("checked  3 audited runs", "recipe   lr 0.1, warm-up 500 steps at batch 1,024")
SMALL = {"num_params": 320e6, "num_layers": 24, "hidden": 1024}
LARGE = {"num_layers": 80, "hidden": 8192}


def test_the_short_page_says_peak_change_price_and_twice_the_devices(plan):
    text = plan_text(plan)
    for start in ("plan ", "best ", "peak ", "wanted ", "change ", "double ", "price "):
        assert re.search(f"^{start}", text, re.MULTILINE), start


@pytest.mark.parametrize(
    ("sizes", "cluster"),
    list(
        itertools.product(
            (SMALL, LARGE), ("8xA100-40GB", "2x ml.p3.16xlarge", "8xV100-16GB", "64xH100-80GB", "T4")
        )
    ),
)
@pytest.mark.parametrize("values", [{}, {"num_tokens": 1e9, "layout": {"fsdp": 1}, "micro_batch": 64}])
def test_no_page_is_longer_than_12_lines_and_none_loses_its_command(sizes, cluster, values):
    told = dict(values)
    if "layout" in told:  # copies alone, on all devices
        told["global_batch"] = 8192
    plan = Plan.make(Plan.profile_of_numbers(sizes), cluster, told)
    plan = msgspec.structs.replace(plan, notes=(*plan.notes, "a", "b", "c"))
    lines = plan_text(plan, task="", more=MORE).splitlines()
    assert len(lines) <= MAX_LINES
    assert lines[0].startswith("plan ") and MORE[1] in lines
    if plan.best is not None:
        assert lines[-1].startswith("run ") and any(line.startswith("best ") for line in lines)
    else:
        assert any(line.startswith("way out ") for line in lines)
    if plan.changes:
        assert any(line.startswith("change ") for line in lines)
    notes = [line for line in lines if line.startswith(("price", "note"))]
    assert all(len(line) < 200 for line in notes)


def test_every_figure_of_a_row_has_its_error_bar(plan):
    row = next(line for line in plan_text(plan).splitlines() if line.startswith("best"))
    memory, step, speed, mfu, time, dollars = re.split(r"  +", row)[3:]
    assert re.fullmatch(r"[\d.]+ GiB \(\d+ to \d+\)", memory)
    assert all("±" in each for each in (step, speed, mfu, time, dollars))
    value, error = (float(each) for each in re.findall(r"[\d.]+", step)[:2])
    assert error / value == pytest.approx(plan.best.step.error, rel=0.1)


def test_dollars_have_no_digit_that_the_error_leaves_open():
    plan = Plan.make(
        Plan.profile_of_numbers(LARGE), "64xH100-80GB", {"num_tokens": 1e12, "global_batch": 2048}
    )
    assert not re.search(r"\$[\d,]+\.\d\d\b(?! an hour)", plan_text(plan))


def test_a_row_that_fits_only_perhaps_comes_with_advice(plan):
    high = plan.cluster.device.memory_bytes + 1.0
    tight = msgspec.structs.replace(
        plan.best.memory, device=msgspec.structs.replace(plan.best.memory.device, high_bytes=high)
    )
    choices = (msgspec.structs.replace(plan.best, memory=tight), *plan.found.choices[1:])
    made = msgspec.structs.replace(plan, found=msgspec.structs.replace(plan.found, choices=choices))
    text = plan_text(made)
    assert " risky " in text and re.search("^note +risky: the upper end, 40.0 GiB", text, re.MULTILINE)


def test_that_the_first_row_is_not_the_fastest_is_said(plan):
    slow, fast = plan.best, plan.found.choices[1]
    faster = msgspec.structs.replace(
        fast, step=msgspec.structs.replace(slow.step, compute_s=0.97 * slow.step.compute_s)
    )
    found = msgspec.structs.replace(plan.found, choices=(slow, faster))
    told = "count as equal: the simplest of them is first"
    assert told in plan_text(msgspec.structs.replace(plan, found=found, wanted=None, changes=()))
    alone = msgspec.structs.replace(plan.found, choices=(slow,))
    assert told not in plan_text(msgspec.structs.replace(plan, found=alone, wanted=None, changes=()))


def test_nothing_fits_says_why_and_the_way_out(nothing):
    text = plan_text(nothing)
    assert re.search(r"^best +nothing fits: .* needs .* GiB", text, re.MULTILINE)
    assert re.search(r"^way out +--cluster", text, re.MULTILINE)
    tiny = Plan.profile_of_numbers({"num_layers": 2, "hidden": 64, "vocab": 1000})
    text = plan_text(Plan.make(tiny, "64xH100-80GB", {"global_batch": 1}))
    assert "a batch of 1 sample cannot be shared out over 64 devices" in text
    assert re.search(r"^way out +--global-batch \d+", text, re.MULTILINE)


def test_a_closed_form_in_the_place_of_a_trace_is_marked(plan):
    profile = msgspec.structs.replace(
        plan.profile, source="not traced, but the closed form of its config: why"
    )
    text = plan_text(msgspec.structs.replace(plan, profile=profile))
    assert "note     not traced, but the closed form of its config" in text


def test_reasons_have_every_moment_and_tell_allocated_from_reserved(plan):
    text = plan_text(plan, "why")
    assert {"loss", "end of forward", "optimizer step", "initialisation", "checkpoint load"} <= set(
        re.findall(r"^memory   stage \d, ([^:]+):", text, re.MULTILINE)
    )
    assert "allocated" in text and "reserved" in text and "on the device" in text
    assert "device hours" in text and "per million tokens" in text
    assert len(text) > len(plan_text(plan))
    assert plan.goal.price.sentence() in text


def test_what_doubling_saves_is_rounded_to_what_the_forecast_can_tell(plan):
    text = double_sentence(plan)
    assert re.fullmatch(
        r"16 devices save [\d.]+ (min|h) and cost (about the same|\$[\d.]+ (more|less))", text
    )


def test_a_long_sentence_is_cut_at_the_end_of_its_first_part():
    long = "this machine costs three times what that one costs for the same: " + "a; " * 100
    assert short(long) == "this machine costs three times what that one costs for the same (--why)"
    assert short("short") == "short" and len(short("word " * 100)) < 200
