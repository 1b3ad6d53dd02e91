"""The real bench: its spaces and its figures; the trainings themselves take half an hour."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def real():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("tune_real")


def test_the_grid_has_36_points_and_the_tuner_the_same_ranges(real):
    grid, tuned = real.grid_space(real.GRID), real.tuned_space()
    assert grid.num_configs == 3 * 3 * 2 * 2
    assert tuned.num_configs is None
    assert all(tuned.allows(config) for config in grid.configs())
    assert tuned.allows(real.MIDDLE)


def test_the_bars_are_the_grids_value_and_a_quarter_of_its_cost(real):
    found = {row["name"]: row for row in real.rows((2.0, 400.0, 36, ""), (1.99, 100.0, 20, ""))}
    assert found["tuner_over_grid_value_pct"]["value"] == -0.5
    assert found["tuner_over_grid_value_pct"]["meets"] is True
    assert found["tuner_cost_pct"]["value"] == 25.0
    assert found["tuner_cost_pct"]["meets"] is True
    worse = {row["name"]: row for row in real.rows((2.0, 400.0, 36, ""), (2.01, 101.0, 20, ""))}
    assert not worse["tuner_over_grid_value_pct"]["meets"]
    assert not worse["tuner_cost_pct"]["meets"]
