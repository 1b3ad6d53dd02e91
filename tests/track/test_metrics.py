"""Reading metrics back: torn and garbled lines, several ranks, resumed runs, clocks that jump."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hemostat.track import Recorder
from hemostat.track.metrics import last_position, metric_files, metric_names, read_lines, read_metric


def write(path, *points, rank=0, name="loss", times=None):
    lines = [
        json.dumps(
            {"step": step, "samples": samples, "time": (times or points)[i][0], "values": {name: value}}
        )
        for i, (step, samples, value) in enumerate(points)
    ]
    with (path / f"metrics.{rank}.jsonl").open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_torn_last_line_and_garbage_between(tmp_path):
    write(tmp_path, (1, 32, 3.0))
    with (tmp_path / "metrics.0.jsonl").open("ab") as file:
        file.write(b'\xff\xfe\n\n[1]\n{"step": "x"}\n')
    write(tmp_path, (2, 64, 2.0))
    with (tmp_path / "metrics.0.jsonl").open("ab") as file:
        file.write(b'{"step":3,"samples":96,"time":1,"values":{"loss":1')
    assert read_metric(tmp_path, "loss") == [(1, 32, 3.0), (2, 64, 2.0)]
    assert last_position(tmp_path) == (2, 64)


def test_a_resumed_run_replaces_what_the_lost_attempt_wrote(tmp_path):
    write(tmp_path, (1, 32, 3.0), (2, 64, 2.0), (3, 96, 1.0), (4, 128, 0.5))
    write(tmp_path, (3, 80, 1.5), (4, 112, 0.9))  # resumed at 64 with another batch
    assert read_metric(tmp_path, "loss") == [(1, 32, 3.0), (2, 64, 2.0), (3, 80, 1.5), (4, 112, 0.9)]


def test_lowest_rank_speaks_and_others_fill_in(tmp_path):
    write(tmp_path, (1, 32, 1.0), rank=0)
    write(tmp_path, (1, 32, 9.0), (2, 64, 9.5), rank=1)
    write(tmp_path, (1, 32, 8.0), rank=10)
    assert read_metric(tmp_path, "loss") == [(1, 32, 1.0), (2, 64, 9.5)]
    assert [path.name for path in metric_files(tmp_path)] == [f"metrics.{rank}.jsonl" for rank in (0, 1, 10)]


def test_a_clock_that_jumps_backwards_changes_nothing(tmp_path):
    points = [(1, 32, 3.0), (2, 64, 2.0), (3, 96, 1.0)]
    write(tmp_path, *points, times=[(1e9,), (5e8,), (1e9 + 1,)])
    assert read_metric(tmp_path, "loss") == points


def test_names_and_absent_files(tmp_path):
    assert (read_metric(tmp_path, "loss"), metric_names(tmp_path), last_position(tmp_path)) == ([], [], None)
    write(tmp_path, (1, 1, 1.0), name="b")
    write(tmp_path, (1, 1, 1.0), name="a", rank=1)
    (tmp_path / "metrics.x.jsonl").write_text("not a rank's file")
    assert metric_names(tmp_path) == ["a", "b"]
    assert list(read_lines(tmp_path / "none.jsonl")) == []


@given(st.lists(st.floats(width=64, allow_nan=False), max_size=30))
def test_every_finite_number_comes_back_exactly(tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("metrics")
    with Recorder(folder, 0) as recorder:
        for step, number in enumerate(numbers):
            recorder.log(step, step, {"x": number})
    assert [value for _, _, value in read_metric(folder, "x")] == numbers
