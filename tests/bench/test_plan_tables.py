"""No published table is left without a word, and the figures that its note names are there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "plan"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("plan_tables")


def test_every_table_is_compared_or_says_why_not(bench):
    if not PUBLISHED.is_dir():
        pytest.skip("the published tables are not here")
    assert set(bench.TABLES) == {path.stem for path in PUBLISHED.glob("*.csv")}
    for row in bench.figures():
        total = int(row["note"].removeprefix("of ").partition(";")[0])
        assert 0 <= row["value"] <= total, row


def test_the_figures_that_notes_name_are_written(bench):
    names = set()
    for result in ("plan_memory", "plan_time"):
        record = json.loads((ROOT / "bench" / "results" / f"{result}.json").read_text())
        names |= {figure["name"] for figure in record["figures"]}
    for table in bench.TABLES.values():
        for word in table.note.replace(";", ",").split(","):
            if word.strip().endswith("_pct"):
                assert word.strip() in names


def test_a_table_that_is_not_compared_has_a_reason(bench):
    silent = [
        name
        for name, table in bench.TABLES.items()
        if table.num_compared is bench._none and len(table.note) < 20
    ]
    assert silent == []
