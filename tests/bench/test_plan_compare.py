"""The comparison of estimators: its arithmetic, on runs of our own making."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[2]
GIB = 2**30


@pytest.fixture(scope="module")
def compare():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        yield importlib.import_module("plan_compare")


def case(measured_gib: float, own_error_pct: float = 1.0) -> SimpleNamespace:
    row = SimpleNamespace(
        measured_bytes=measured_gib * GIB, error_pct=own_error_pct, config=f"{measured_gib} GiB"
    )
    return SimpleNamespace(row=row)


def test_an_answer_is_compared_with_what_was_measured(compare):
    answer = compare.Answer(case(50.0), 25.0 * GIB)
    assert answer.error_pct == pytest.approx(-50.0)
    assert answer.is_wrong_fit  # a device of 32 GB holds 25 GiB, and not 50
    assert not compare.Answer(case(50.0), 60.0 * GIB).is_wrong_fit


def test_runs_that_an_estimator_has_no_words_for_are_left_out_and_counted(compare):
    cases = [case(10.0), case(20.0), case(40.0)]
    found = compare.answers(lambda each: None if each is cases[0] else 20.0 * GIB, cases)
    figures = {
        each["name"]: each["value"]
        for each in compare.figures_of("vramcalc", "deepspeed_zero2", cases, found)
    }
    assert figures["vramcalc_deepspeed_zero2_rows"] == 2
    assert figures["vramcalc_deepspeed_zero2_mean_error_pct"] == 25.0  # 0 and -50
    assert figures["vramcalc_deepspeed_zero2_max_error_pct"] == 50.0
    assert figures["vramcalc_deepspeed_zero2_hemostat_mean_error_pct"] == 1.0


def test_no_answer_is_no_error(compare):
    figures = compare.figures_of("vramcalc", "deepspeed_zero2", [case(10.0)], [])
    assert [each["value"] for each in figures] == [0]


def test_the_formulas_of_deepspeed(compare):
    formulas = importlib.import_module("plan_peers.deepspeed_formulas")
    assert formulas.zero2_bytes(100, 1) == 2 * 100 + 18 * 100
    assert formulas.zero3_bytes(100, 7, 10) == 4 * 7 + 180
