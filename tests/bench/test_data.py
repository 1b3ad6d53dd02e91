"""The benchmark of the loaders, small: every loader gives the samples it is timed on, and every figure is made."""

from __future__ import annotations

import importlib
import json
import math
from itertools import islice
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

for name in ("torchdata", "grain", "spdl", "pyarrow"):
    pytest.importorskip(name)

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCH)
        yield importlib.import_module("data")


def test_every_loader_belongs_to_a_peer_and_is_tried_in_batches_where_it_can(bench):
    tried = [setting for settings in bench.PEERS.values() for setting in settings]
    assert sorted(["hemostat", *tried]) == sorted(bench.LOADERS)
    assert {"stateful_many_0", "stateful_many_2"} <= set(bench.PEERS["stateful"])
    assert len(bench.PEERS["spdl"]) >= 2


@pytest.fixture(scope="module")
def works(bench, tmp_path_factory):
    workloads = importlib.import_module("data_peers.workloads").workloads
    return {work.name: work for work in workloads(tmp_path_factory.mktemp("data"), 70)}


@pytest.mark.parametrize("name", ["torch_2", "torch_many_2", "stateful_2", "stateful_many_2"])
def test_workers_stay_over_the_epochs(bench, works, name):
    import multiprocessing

    batches = bench.LOADERS[name](works["jpeg"], 0)  # two full batches and a part are an epoch
    next(batches)
    before = {child.pid for child in multiprocessing.active_children()}
    assert len(before) >= 2
    rows = [len(batch[1]) for batch in islice(batches, 4)]
    assert rows == [32, 6, 32, 32]
    assert {child.pid for child in multiprocessing.active_children()} == before
    batches.close()


def test_quick_measures_everything_and_writes_no_file(bench, capsys):
    target = BENCH / "results" / "data.json"
    before = target.read_bytes()
    rows = {row["name"]: row for row in bench.main(["--quick"])}
    recorded = {row["name"] for row in json.loads(before)["figures"]}
    assert set(rows) == recorded
    assert all(row["value"] > 0 and math.isfinite(row["value"]) for row in rows.values())
    assert target.read_bytes() == before
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
