"""The comparison of step times: quantiles, coverage, ranking, and rows as torch would run them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "plan"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("plan_time")


@pytest.fixture
def _published() -> None:
    if not PUBLISHED.is_dir():
        pytest.skip("the published tables are not here")


def test_a_quantile_counts_tables_alike(bench):
    many, few = [0.1] * 90 + [0.5] * 10, [0.2, 0.3]
    assert bench.quantile_alike([many], 0.9) == 0.1
    assert bench.quantile_alike([many, few], 0.9) == 0.3  # half of the weight is in two values
    assert bench.inside_pct([many, few], 0.2) == pytest.approx(70)


def test_equal_ranks_are_shared(bench):
    assert bench.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert bench.spearman([1, 2, 3], [30, 20, 10]) == pytest.approx(-1)
    assert bench.spearman([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)


@pytest.mark.usefixtures("_published")
def test_the_error_bar_is_the_quantile_of_the_fitted_rows(bench):
    chosen = [bench.errors(rows) for rows, _ in bench.fitted().values()]
    assert bench.quantile_alike(chosen, bench.QUANTILE) == pytest.approx(bench.STEP_ERROR, abs=0.005)


@pytest.mark.usefixtures("_published")
def test_no_held_out_configuration_is_among_the_fitted_ones(bench):
    for chosen, held in bench.fitted().values():
        assert held
        assert not {row.configuration for row in chosen} & {row.configuration for row in held}


@pytest.mark.usefixtures("_published")
def test_what_is_published_of_an_engine_can_be_left_out(bench):
    row = bench.tables.vtrain("multinode")[0]
    regime = bench.as_torch(row).measured.workload.regime
    assert (row.measured.workload.regime.engine, regime.engine) == ("megatron", "torch")
    assert regime.overlaps and not row.measured.workload.regime.overlaps


@pytest.mark.usefixtures("_published")
def test_the_days_of_a_table_become_steps(bench):
    """174.6B on 384 devices, 153 TFLOP/s each: 84 days for 300B tokens (Narayanan et al. 2021, table 2)."""
    rows = bench.zero_beside_megatron()
    row = next(each for each in rows if each.measured.layout.pp == 12)
    assert row.measured.step_s == pytest.approx(84 * 86400 * 1536 * 2048 / 300e9)
    work, layout = row.measured.workload, row.measured.layout
    assert work.micro_batch * work.accumulation * layout.num_data_ranks == 1536
