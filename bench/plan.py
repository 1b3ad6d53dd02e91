"""All figures of the plan that have a bar, in one file: runs the single benchmarks and collects from their results.

`python bench/plan.py --collect` runs nothing. Writes bench/results/plan.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from result_file import ROOT, write_result

NAMES = {
    "plan_memory": (
        "simumax_allocated_mean_error_pct",
        "simumax_allocated_max_error_pct",
        "torchtitan_reserved_max_error_pct",
        "torchtitan_reserved_max_under_pct",
        "vramcalc_max_error_pct",
        "fit_wrong",
        "fit_wrong_at_upper_end",
        "formula_wrong",
    ),
    "plan_time": (
        "vtrain_multinode_mape_pct",
        "vtrain_multinode_as_torch_mape_pct",
        "vtrain_singlenode_mape_pct",
        "vtrain_singlenode_as_torch_mape_pct",
        "ranking_spearman",
        "multinode_ranking_spearman",
        "calibrated_ranking_spearman",
    ),
    "plan_trace": ("traced_max_error_pct",),
    "plan_tables": (),  # which tables are compared at all
}


def collect(results: Path) -> list[dict[str, Any]]:
    """The figures by the names above.

    Raises:
        FileNotFoundError: a benchmark has left no result.
        KeyError: its result lacks a figure.
    """
    rows = []
    for name, wanted in NAMES.items():
        record = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        known = {figure["name"]: figure for figure in record["figures"]}
        for figure in wanted:
            source = f"bench/{name}.py, {record['date']} at {record['commit']}"
            rows.append({**known[figure], "note": f"{known[figure]['note']} ({source})"})
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run, collect, print, write."""
    given = sys.argv[1:] if arguments is None else arguments
    if "--collect" not in given:
        for name in NAMES:
            subprocess.run([sys.executable, str(Path(__file__).with_name(f"{name}.py"))], check=True)
    rows = collect(ROOT / "bench" / "results")
    for row in rows:
        met = "met" if row["meets"] else "MISSED"
        print(f"{row['name']:<36} {row['value']:>8} {row['unit']:<5} bar {row['bar']}: {met}")
    write_result("plan", rows)


if __name__ == "__main__":
    main()
