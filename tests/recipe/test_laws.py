"""Every exact vector, by calling the library; and the sanity band."""

import runpy
from pathlib import Path

import pytest

from hemostat.recipe import Base
from hemostat.recipe.laws import find_odd_lr

VECTORS = runpy.run_path(str(Path(__file__).with_name("vectors.py")))


@pytest.mark.parametrize("row", VECTORS["law_rows"](), ids=lambda row: f"{row['law']} {row['inputs']}")
def test_law_vector(row):
    assert VECTORS["check_law"](row) == ""


@pytest.mark.parametrize("row", VECTORS["patience_rows"](), ids=lambda row: row["note"])
def test_patience_vector(row):
    assert VECTORS["check_patience"](row) == ""


def test_a_wrong_vector_would_be_seen():
    row = {
        "law": "ema",
        "inputs": '{"keep": 0.9, "k": 2}',
        "expected": '{"keep": 0.82}',
        "relative_tolerance": "1e-6",
    }
    assert "0.81" in VECTORS["check_law"](row)


def test_only_a_rate_far_from_both_laws_is_odd():
    run = {"num_params": 10**9, "sample_tokens": 2048, "total_samples": 10**7}
    assert find_odd_lr(Base(lr=3e-4, **run)) == []
    assert [finding.code for finding in find_odd_lr(Base(lr=0.3, **run))] == ["HR013"]
    assert find_odd_lr(Base(lr=0.3)) == []
