"""RunRecord: state in one word, summary, metrics, asking a run to stop."""

from __future__ import annotations

import os
import time

import pytest

from hemostat.errors import RecordError
from hemostat.track import Recorder, control, create_run, load_run, update_run, write_exit


@pytest.fixture
def path(tmp_path):
    return create_run(tmp_path, "20261130-1200-aaaaa", {"seed": 1})


def record(path):
    return load_run(path.parent, path.name)


@pytest.mark.parametrize(
    ("status", "state"),
    [(0, "done"), (2, "usage"), (3, "failed"), (4, "guard"), (5, "budget"), (75, "saved")],
)
def test_state_follows_the_exit(path, status, state):
    write_exit(path, 0, status, "why")
    assert record(path).state == state
    assert record(path).exit == (status, "why")


def test_a_loop_that_was_left_is_not_done(path):
    update_run(path, summary={"status": "left"})
    write_exit(path, 0, 0, "")
    assert record(path).state == "left"
    write_exit(path, 1, 3, "lost another rank")
    assert record(path).state == "failed"


def test_a_run_without_an_end_is_running_then_lost(path):
    with Recorder(path, 0) as recorder:
        recorder.log(1, 1, {"loss": 1.0})
    assert record(path).state == "running"
    long_ago = time.time() - 3600
    for item in (path, path / "metrics.0.jsonl"):
        os.utime(item, (long_ago, long_ago))
    assert record(path).state == "lost"
    assert record(path).silent_s > 3000


def test_a_script_that_only_wrote_a_summary_is_done(path):
    update_run(path, summary={"best": 0.5})
    os.utime(path, (1e9, 1e9))
    assert (record(path).state, record(path).summary) == ("done", {"best": 0.5})


def test_metrics_position_and_names(path):
    with Recorder(path, 0) as recorder:
        recorder.log(1, 32, {"loss": 2.0})
        recorder.log(2, 64, {"loss": 1.0, "val_loss": 1.5})
    run = record(path)
    assert run.metrics("loss") == [(1, 32, 2.0), (2, 64, 1.0)]
    assert run.metric_names() == ["loss", "val_loss"]
    assert run.position == (2, 64)


def test_asking_reaches_control(path):
    record(path).ask("stop", at_samples=10, why="no better than the others")
    assert control(path).due(10)


def test_the_whole_header_is_read_when_asked_for(path):
    update_run(path, recipe=[{"field": "lr"}], provenance={"environment": {"A": "1"}, "git": {"commit": "c"}})
    run = record(path)
    assert "recipe" not in run.headline
    assert run.headline["provenance"] == {"git": {"commit": "c"}}
    assert run.header["recipe"] == [{"field": "lr"}]


def test_odd_headers_do_not_break_the_list(path):
    update_run(path, created="yesterday", summary=[1])
    run = record(path)
    assert (run.created, run.summary) == (0.0, {})
    assert "RunRecord" in repr(run)


def test_no_header(tmp_path):
    path = create_run(tmp_path, "r", {})
    run = load_run(tmp_path, "r")
    assert run.state == "unreadable"
    with pytest.raises(RecordError, match=r"has no run\.json"):
        _ = run.header
    assert path == run.path
