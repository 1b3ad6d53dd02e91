"""The figures with a bar come from the single results, and what is absent is an error."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("plan")


@pytest.fixture
def results(tmp_path):
    for path in (ROOT / "bench" / "results").glob("plan_*.json"):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_every_bar_is_there_with_its_source(bench, results):
    rows = {row["name"]: row for row in bench.collect(results)}
    assert len(rows) == 16 and all(row["bar"] is not None for row in rows.values())
    memory = json.loads((results / "plan_memory.json").read_text())
    value = next(each["value"] for each in memory["figures"] if each["name"] == "fit_wrong")
    assert rows["fit_wrong"]["value"] == value and "bench/plan_memory.py" in rows["fit_wrong"]["note"]


def test_a_result_that_is_not_there_or_lacks_a_figure(bench, results):
    time = json.loads((results / "plan_time.json").read_text())
    time["figures"] = [each for each in time["figures"] if each["name"] != "ranking_spearman"]
    (results / "plan_time.json").write_text(json.dumps(time))
    with pytest.raises(KeyError, match="ranking_spearman"):
        bench.collect(results)
    (results / "plan_memory.json").unlink()
    with pytest.raises(FileNotFoundError):
        bench.collect(results)
