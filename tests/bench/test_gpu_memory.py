"""The benchmark of GPU memory where there is no GPU: it says so, doubles its batches and keeps the rows of others."""

from __future__ import annotations

import csv
import importlib
import math
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[2] / "bench"
FOUND = {"allocated_peak_bytes": 90, "reserved_peak_bytes": 100, "between_steps_bytes": 50, "step_s": 0.5}


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module("gpu_memory")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_writes_nothing(bench, tmp_path, capsys):
    assert bench.main(["--out", str(tmp_path / "rows.csv")]) == []
    assert capsys.readouterr().out == "There is no GPU here, so no memory was measured.\n"
    assert not list(tmp_path.iterdir())


def test_micro_batches_are_doubled_until_the_next_would_not_fit(bench):
    def measure(case):
        if case.precision == "fp32" and case.micro_batch > 2:
            return None  # out of memory
        return FOUND | {"reserved_peak_bytes": 100 * case.micro_batch}

    rows = list(bench.rows_until(math.inf, 1400, measure))
    tried: dict = {}
    for row in rows:
        tried.setdefault((row["accumulation"], row["recompute"], row["precision"]), []).append(
            row["micro_batch"]
        )
    assert list(tried) == list(bench.kinds()) and len(tried) == 12
    assert tried[1, "none", "bf16"] == [1, 2, 4, 8]  # 800 of 1400 bytes, twice that is too much
    assert tried[1, "none", "fp32"] == [1, 2]
    assert tried[8, "full", "bf16"] == [1, 4, 16]
    assert not list(bench.rows_until(-math.inf, 1400, measure))


def test_rows_of_other_machines_stay_and_those_of_this_one_are_replaced(bench, tmp_path):
    path = tmp_path / "rows.csv"

    def row(machine, micro_batch):
        own = {"precision": "bf16", "recompute": "none", "micro_batch": micro_batch, "accumulation": 1}
        return bench.header() | {"machine": machine} | own | FOUND

    bench.write_rows(path, [row("A100", 1)])
    bench.write_rows(path, [row("H200", 1), row("H200", 2)])
    bench.write_rows(path, [row("H200", 4)])
    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert tuple(read[0]) == bench.COLUMNS
    assert [(each["machine"], each["micro_batch"]) for each in read] == [("A100", "1"), ("H200", "4")]
    assert 310e6 < float(read[0]["num_params"]) < 330e6
