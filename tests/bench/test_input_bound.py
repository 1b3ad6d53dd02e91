"""The example that waits for its data, small: one round of both ways, whose wait falls, and their figures."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module("input_bound")


def test_the_advice_is_given_and_followed_it_removes_the_wait(bench, tmp_path):
    # one reader, so that a machine of many cores waits too
    small = ("num_scans=128", "epochs=8", "train.workers.num=1", "train.save=false")
    runs, prepare_s = bench.measure(tmp_path, 1, *small)
    assert prepare_s > 0 and (tmp_path / bench.COPY / "prepared.json").is_file()
    before, after = runs["before"][0], runs["after"][0]
    assert before["samples"] == after["samples"] == 1024
    assert before["waited"].startswith("input-bound: ")
    assert before["feed_hint"].startswith("store the samples decoded or tokenised, `hemostat data prepare`")
    assert after["wait_share"] < before["wait_share"] / 2
    rows = {row["name"]: row for row in bench.figures(runs, gain=2.0, prepare_s=prepare_s)}
    assert rows["wait_share_before"]["value"] == pytest.approx(100 * before["wait_share"], abs=1e-3)
    assert (
        rows["wait_share_before"]["note"] == "store the samples decoded or tokenised, `hemostat data prepare`"
    )
    assert rows["wait_share_after"]["meets"] == (after["wait_share"] <= 0.1)


def test_an_advice_without_a_command_cannot_be_followed(bench, tmp_path):
    with pytest.raises(SystemExit, match="no command in the advice"):
        bench.follow(tmp_path, "read whole batches, give the data set __getitems__")


def test_the_probe_names_the_same_way(bench, tmp_path):
    assert bench.stored_copy_gain(tmp_path) > 5
