"""The replayed bench: its arithmetic, its pools and its peers, on problems of our own making."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("optuna")

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("tune_data", "tune_pool", "tune_peers", "tune_replay", "tune_figures", "tune_spend")


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield type("Bench", (), {name[5:]: importlib.import_module(name) for name in NAMES})


@pytest.fixture
def problem(bench):
    """A valley in two parameters, six evaluations a run, 49 recorded configurations."""
    axes = (
        bench.data.Axis("lr", (1e-4, 1e-1), "real", log=True),
        bench.data.Axis("width", (1, 7), "integer"),
    )
    rows = [(10 ** (-4 + 0.5 * a), b) for a in range(7) for b in range(1, 8)]
    final = np.array([(a - 3) ** 2 + (b - 4) ** 2 for a in range(7) for b in range(1, 8)], dtype=float)
    values = final[:, None] + 1 / np.arange(1, 7)
    times_s = np.broadcast_to(np.arange(1.0, 7), values.shape)
    grid = tuple(range(len(rows)))
    budget_s = bench.data.schedule_s([6.0] * len(rows))
    return bench.data.Problem(
        "taskset", "valley", "train", axes, rows, values, times_s, grid, float(values[:, -1].min()), budget_s
    )


def test_five_workers_share_the_grid(bench):
    assert bench.data.schedule_s([1.0] * 11) == 3.0
    assert bench.data.schedule_s([5.0, 1.0, 1.0, 1.0, 1.0, 1.0]) == 5.0


def test_a_proposal_becomes_the_nearest_configuration_that_was_not_run(bench, problem):
    pool = bench.pool.Pool(problem)
    wanted = {"lr": 3.1e-3, "width": 4}
    first = pool.nearest(wanted, set())
    assert pool.config(first) == {"lr": pytest.approx(10**-2.5), "width": 4}
    assert pool.nearest(wanted, {first}) != first
    assert pool.nearest(wanted, set(range(49))) is None


def test_the_default_method_beats_the_grid_in_its_order_and_stops_by_itself(bench, problem):
    from hemostat.tune.stopping import done

    pool = bench.pool.Pool(problem)
    result = bench.replay.run_study(pool, bench.replay.default_method(done), seed=1)
    grid_s = bench.peers.time_to_target_s(problem, bench.peers.peer("grid", pool, 0))
    assert result.found_s < grid_s
    assert result.found_s <= result.ended_s <= problem.budget_s


def test_a_start_is_run_first(bench, problem):
    pool = bench.pool.Pool(problem)
    method = bench.replay.default_method(None)
    best = {"lr": 10**-2.5, "width": 4}
    result = bench.replay.run_study(pool, method, 0, [best], to_target=True)
    assert result.why == "found"
    assert bench.replay.recorded(pool, [best, best])[0] == best
    assert bench.replay.recorded(pool, [best, best])[1] != best


@pytest.mark.parametrize("name", ["random", "random_grid", "optuna", "optuna_hyperband", "optuna_median"])
def test_peers_find_it_or_pay_for_the_whole_grid(bench, problem, name):
    pool = bench.pool.Pool(problem)
    time_s = bench.peers.time_to_target_s(problem, bench.peers.peer(name, pool, 3))
    assert 6.0 <= time_s <= problem.budget_s


def test_one_epoch_is_paid_for_all_before_the_best_goes_on(bench, problem):
    # 49 first evaluations by 5 workers take 10 s; the best is among the first five that go on for 5 s
    assert bench.peers.one_epoch_s(problem, 0) == 15.0


def test_a_miss_costs_the_whole_grid(bench):
    run = bench.figures.Run
    runs = [
        run("hemostat", "steplaw", task, "train", seed, 0.1, 0.2) for task in ("a", "b") for seed in range(2)
    ]
    runs[3] = runs[3]._replace(found=1.0, stopped=1.0)
    assert bench.figures.cut_pct(runs, bench.figures.stopped) == pytest.approx(100 * (1 - (0.2 + 0.6) / 2))
    grid = [run("random_grid", "steplaw", task, "train", 0, 0.55, 1.0) for task in ("a", "b")]
    assert bench.figures.ratio(runs, grid, bench.figures.found) == pytest.approx(math.sqrt(5.5))


def test_bars_are_read_in_both_directions(bench):
    assert bench.figures.figure("x", 84.9, "%", "", ">= 85")["meets"] is False
    assert bench.figures.figure("x", 0, "", "", "<= 0")["meets"] is True
    assert bench.figures.figure("x", 1, "", "")["meets"] is None


def test_no_study_spends_more_than_it_may(bench):
    assert not any(bench.spend.overspends(seed) for seed in range(20))


def test_the_recorded_families_are_halved(bench):
    if not bench.data.DATA.is_dir():
        pytest.skip("the recorded runs are not here")
    settings = bench.data.steplaw()
    assert len(settings) == 16
    assert [problem.half for problem in settings[:2]] == ["train", "held-out"]
    assert all((problem.values <= problem.target).any() for problem in settings)
