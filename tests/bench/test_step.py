"""The step benchmark with few steps: every loop that is installed does the same work, and the figures add up."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
MODULES = {"fabric": "lightning", "lightning": "lightning", "ignite": "ignite"}


@pytest.fixture(scope="module")
def step():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module("step")


@pytest.fixture(scope="module")
def times(step):
    return importlib.import_module("step_peers.workload").Times


def installed(name: str) -> bool:
    return name in ("bare", "hemostat") or importlib.util.find_spec(MODULES.get(name, name)) is not None


def test_every_installed_loop_ends_with_the_same_loss(step):
    names = [name for name in step.LOOPS if installed(name)]
    work = importlib.import_module("step_peers.workloads").mlp(80, 20)
    rounds = step.measure(work, names, 1)
    losses = [rounds[name][0].last_loss for name in names]
    assert {"bare", "hemostat"} <= set(names)
    assert max(losses) - min(losses) < 1e-4 * max(losses)
    assert all(run.cpu_s > 0 and run.wall_s > 0 for runs in rounds.values() for run in runs)


def test_hemostat_has_left_a_record_on_the_disk(step, tmp_path):
    work = importlib.import_module("step_peers.workloads").mlp(70, 20)
    importlib.import_module("step_peers.with_hemostat").run(work, tmp_path)
    lines = (tmp_path / "run" / "metrics.0.jsonl").read_text().splitlines()
    assert sum("loss" in json.loads(line).get("values", ()) for line in lines) == 70


def test_loops_that_did_other_work_are_refused(step, times):
    with pytest.raises(RuntimeError, match="same work"):
        step.check_same_work({"bare": [times(1, 1, 2.0)], "hemostat": [times(1, 1, 2.1)]})


def test_figures_are_paired_by_round_and_hemostat_must_be_below_all(step, times):
    rounds = {
        "bare": [times(1e-3, 1e-3, 1.0), times(2e-3, 2e-3, 1.0), times(1e-3, 1e-3, 1.0)],
        "hemostat": [times(1.05e-3, 1e-3, 1.0), times(2.05e-3, 2e-3, 1.0), times(1.07e-3, 1e-3, 1.0)],
    }
    rows = step.mlp_figures(rounds) + step.gpt_figures(rounds)
    values = {row["name"]: row["value"] for row in rows}
    assert values["bare_mlp_us"] == 1000
    assert values["hemostat_mlp_added_us"] == 50
    assert math.isclose(values["hemostat_over_bare"], 1.05, abs_tol=1e-3)
    step.set_bars(rows)
    assert [row["meets"] for row in rows if row["bar"] is not None] == [True, True]
    rows.append(step.figure("fabric_mlp_added_us", 49.0, "us", ""))
    step.set_bars(rows)
    assert [row["meets"] for row in rows if row["name"] == "hemostat_mlp_added_us"] == [False]


def test_a_loop_that_stops_early_is_refused(step):
    workload = importlib.import_module("step_peers.workload")
    work = importlib.import_module("step_peers.workloads").mlp(10, 2)
    watch = workload.Stopwatch(work)
    watch.tick(1.0)
    with pytest.raises(RuntimeError, match="1 steps"):
        watch.times()


def test_an_unknown_loop_is_named(step, capsys):
    with pytest.raises(SystemExit):
        step.main(["--quick", "nosuch"])
    assert "nosuch" in capsys.readouterr().err
