"""control.json: absent, asked, garbled; its price in a step loop."""

from __future__ import annotations

import math
import time
import warnings

import pytest

from hemostat.errors import FieldError, HemostatWarning
from hemostat.track import control
from hemostat.track.control import Control, write_control


def test_without_a_file_the_answer_is_go(tmp_path):
    assert control(tmp_path) == Control()
    assert control() == Control()


def test_round_trip_and_the_environment(tmp_path, monkeypatch):
    write_control(tmp_path, "pause", at_samples=4096, why="rung of the study")
    monkeypatch.setenv("HEMOSTAT_RUN_DIR", str(tmp_path))
    asked = control()
    assert asked == Control(action="pause", at_samples=4096, why="rung of the study")
    assert [asked.due(4095), asked.due(4096)] == [False, True]
    write_control(tmp_path, "go")
    assert not control(tmp_path).due(10**9)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"action": "halt"}', '{"action": "stop", "at_samples": "x"}']
)
def test_a_garbled_file_is_ignored_with_one_warning(tmp_path, text):
    (tmp_path / "control.json").write_text(text)
    with pytest.warns(HemostatWarning, match=r"control=.*ignored"):
        assert control(tmp_path).action == "go"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert control(tmp_path).action == "go"


def test_later_keys_of_a_newer_version_are_no_error(tmp_path):
    (tmp_path / "control.json").write_text('{"action": "stop", "reason_code": 7}')
    assert control(tmp_path).due(0)


def test_bad_requests(tmp_path):
    with pytest.raises(FieldError, match="action='halt'"):
        write_control(tmp_path, "halt")
    with pytest.raises(FieldError, match="at_samples=-1"):
        write_control(tmp_path, "stop", at_samples=-1)


def test_asking_costs_little_while_nothing_is_asked(tmp_path):
    best_s = math.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(1000):
            control(tmp_path)
        best_s = min(best_s, time.perf_counter() - start)
    assert best_s / 1000 < 30e-6  # measured: 2 us
