"""The benchmark of layouts without running it: which cases it measures, and what it makes of their figures."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module("layouts")


def held(peak_mb: float, state_mb: float = 12.0):
    """A rank with so much at its peak and so much state."""
    state = {"params": state_mb / 4, "grads": state_mb / 4, "optimizer": state_mb / 2, "other": 1.0}
    peak = {"params": peak_mb, "grads": 0.0, "optimizer": 0.0, "other": 0.0}
    return {
        when: {kind: round(1e6 * size) for kind, size in kinds.items()}
        for when, kinds in (("at_peak", peak), ("at_step", state))
    }


@pytest.fixture
def memory(bench):
    found = {num: {name: [held(50)] * num for name in bench.memory_cases(num, False)} for num in (1, 2, 4)}
    found[1]["whole"], found[1]["accumulated"] = [held(100)], [held(100.5)]
    found[2]["1f1b"], found[2]["sharded"] = [held(40), held(30)], [held(50, 6.0), held(50, 6.1)]
    return found


def test_the_bars_are_held_against_the_rank_that_holds_most(bench, memory):
    rows = {row["name"]: row for row in bench.memory_bars(memory, False)}
    pipe, shards = rows["pp2_peak_over_1"], rows["fsdp2_state_over_1"]
    assert (pipe["value"], pipe["bar"], pipe["meets"]) == (0.4, 0.5, True)
    assert (shards["value"], shards["meets"]) == (pytest.approx(6.1 / 12, abs=1e-4), True)
    assert (rows["accumulation8_extra_pct"]["value"], rows["accumulation8_extra_pct"]["meets"]) == (0.5, True)
    assert rows["pp2_peak_over_1_accumulating"]["value"] == 0.8


def test_a_bar_that_is_missed_is_said_to_be(bench, memory):
    memory[1]["accumulated"] = [held(101)]
    memory[2]["1f1b"][1] = held(51)
    memory[2]["sharded"][0] = held(50, 6.3)
    meets = {row["name"]: row["meets"] for row in bench.memory_bars(memory, False) if row["bar"]}
    assert meets == dict.fromkeys(("pp2_peak_over_1", "fsdp2_state_over_1", "accumulation8_extra_pct"), False)


def test_schedules_have_the_bubbles_of_the_literature(bench, memory):
    rows = {row["name"]: row["value"] for row in bench.schedule_figures(memory)}
    assert len(rows) == 2 * 2 * len(bench.SCHEDULES)
    assert rows["pp2_1f1b_bubble"] == rows["pp2_gpipe_bubble"] == 1 / 8
    assert rows["pp4_interleaved_bubble"] == 3 / 16
    assert rows["pp2_1f1b_peak_mb"] == 40


def test_times_are_held_against_dp_in_the_same_round(bench, memory):
    names = list(bench.table_cases(bench.even(False)))
    rounds = [{name: [slow * (3.0 if name == "tp" else 1.0)] * 2 for name in names} for slow in (1.0, 7.0)]
    rows = {row["name"]: row for row in bench.layout_figures(memory[2], rounds)}
    assert rows["tp_step_over_dp"]["value"] == 3.0 and rows["pp_full_step_over_dp"]["value"] == 1.0
    assert rows["tp_step_over_dp"]["note"].endswith("3.00 to 3.00 over 2 rounds")
    assert {f"{name}_peak_mb" for name in names} < set(rows)
