"""The costs behind the thresholds of the data room: one round gives each of them, and writes no file."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module("data_costs")


def test_one_round_gives_every_cost(bench, capsys):
    target = BENCH / "results" / "data_costs.json"
    before = target.read_bytes() if target.exists() else None
    rows = {row["name"]: row["value"] for row in bench.main(["--quick"])}
    assert set(rows) == set(bench.NOTES) and all(map(math.isfinite, rows.values()))
    assert rows["order_block_us"] < rows["order_batch_us"]
    assert rows["torch_start_mb"] > 50 and rows["torch_start_s"] > 0.1
    assert (target.read_bytes() if target.exists() else None) == before
    assert len(capsys.readouterr().out.splitlines()) == len(rows)


def test_the_median_stands_with_its_range(bench):
    rounds = [dict.fromkeys(bench.NOTES, value) for value in (1.0, 9.0, 2.0)]
    row = bench.figures(rounds)[0]
    assert row["value"] == 2.0 and row["unit"] == "us" and row["note"].endswith("1 to 9 over 3 rounds")
