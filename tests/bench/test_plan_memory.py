"""The comparison with published peaks: its split, its bars, and its formulas."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "plan"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("plan_memory")


@pytest.fixture
def _published() -> None:
    if not PUBLISHED.is_dir():
        pytest.skip("the published tables are not here")


def rows_of(bench, *errors: float, known: bool = True):
    rows = bench.Row
    within = SimpleNamespace(reserved=SimpleNamespace(low_bytes=95, high_bytes=110))
    forecast = within if known else None
    return [
        rows(str(number), f"config {number}", 100.0, forecast, 100.0 + error)
        for number, error in enumerate(errors)
    ]


def test_every_third_configuration_is_held_out_whatever_the_order(bench):
    rows = rows_of(bench, 0, 1, 2, 3, 4, 5)
    assert bench.held_out(rows) == bench.held_out(rows[::-1]) == {"config 2", "config 5"}
    twice = [*rows, *rows]  # two rows of one configuration are on one side
    assert bench.held_out(twice) == {"config 2", "config 5"}


def test_errors_of_both_parts_stand_apart(bench):
    fit, held = bench.errors_of(rows_of(bench, 1, -2, 8))
    assert (fit, held) == (pytest.approx([1, -2]), pytest.approx([8]))
    assert bench.errors_of(rows_of(bench, 1, 2, 3, known=False)) == ([], [])


def test_too_little_is_the_error_that_runs_out_of_memory(bench):
    found = {each["name"]: each for each in bench.torchtitan_figures(rows_of(bench, 12, -4, 3))}
    assert found["torchtitan_reserved_max_error_pct"]["value"] == pytest.approx(12)
    assert not found["torchtitan_reserved_max_error_pct"]["meets"]
    assert found["torchtitan_reserved_max_under_pct"]["value"] == pytest.approx(4)
    assert found["torchtitan_reserved_max_under_pct"]["meets"]
    assert found["torchtitan_reserved_inside_error_bar_pct"]["value"] == 100


@pytest.mark.usefixtures("_published")
def test_allocated_peaks_are_within_the_bars(bench):
    found = {each["name"]: each for each in bench.simumax_figures(list(bench.simumax()))}
    found |= {each["name"]: each for each in bench.vramcalc_figures(list(bench.vramcalc()))}
    for name in (
        "simumax_allocated_mean_error_pct",
        "simumax_allocated_max_error_pct",
        "vramcalc_max_error_pct",
    ):
        assert found[name]["meets"], found[name]


@pytest.mark.usefixtures("_published")
def test_reserved_peaks_are_within_ten_percent(bench):
    found = {each["name"]: each for each in bench.torchtitan_figures(list(bench.torchtitan()))}
    assert found["torchtitan_reserved_max_error_pct"]["meets"]


@pytest.mark.usefixtures("_published")
def test_everything_that_ran_fits_and_nothing_that_did_not(bench, capsys):
    (found,) = bench.fit_figures()
    assert found["value"] == 0, capsys.readouterr().out


@pytest.mark.usefixtures("_published")
def test_formulas_of_papers_come_out_to_rounding(bench):
    assert bench.formula_misses() == []


@pytest.mark.usefixtures("_published")
def test_hugging_face_blocks_keep_nearly_the_published_number_of_tensors(bench):
    found = {each["name"]: each["value"] for each in bench.copy_figures()}
    assert found["block_copies_missing_mean"] == pytest.approx(2, abs=0.1)
    assert found["block_copies_missing_spread"] < 1.2
