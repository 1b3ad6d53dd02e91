"""The attempts of a run: marked, or told apart by samples that come again; a pause and a clock cost nothing."""

from __future__ import annotations

import json
import time

import pytest

from hemostat.track import Recorder
from hemostat.track.attempts import (
    LAUNCHED,
    median_step_s,
    read_attempts,
    seconds_after,
    since_launch,
)


def line(samples, moment, name="loss"):
    return {"step": 1, "samples": samples, "time": moment, "values": {name: 1.0}}


def write(folder, *rows):
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "metrics.0.jsonl").write_text(text)


def began(moment):
    return {"attempt": "began", "time": moment}


def ended(moment):
    return {"attempt": "ended", "time": moment}


def spans(folder):
    return [(attempt.start, attempt.last, attempt.ended) for attempt in read_attempts(folder)]


def test_a_recorder_marks_where_its_attempt_begins_and_ends(tmp_path, monkeypatch):
    monkeypatch.setenv(LAUNCHED, str(time.monotonic() - 50))
    with Recorder(tmp_path, 0):
        pass
    assert (tmp_path / "metrics.0.jsonl").read_bytes() == b""  # it took no step
    with Recorder(tmp_path, 0) as recorder:
        recorder.log(1, 8, {"loss": 1.0})
        recorder.log(2, 16, {"loss": 1.0})
    killed = Recorder(tmp_path, 0)
    killed.log(2, 16, {"loss": 1.0})
    first, second = read_attempts(tmp_path)
    assert len(first.lines) == 2 and first.ended
    assert 50 <= first.last - first.start < 60  # the launch counts
    assert len(second.lines) == 1 and not second.ended
    killed.close()


def test_marks_split_and_so_do_samples_that_come_again(tmp_path):
    write(tmp_path, began(9.0), line(10, 10.0), line(20, 20.0), began(490.0), line(30, 500.0), ended(501.0))
    assert spans(tmp_path) == [(9.0, 20.0, False), (490.0, 500.0, True)]
    write(tmp_path, line(10, 10.0), line(20, 20.0), line(20, 21.0), line(15, 500.0), line(20, 501.0))
    assert spans(tmp_path) == [(10.0, 21.0, False), (500.0, 501.0, False)]


def test_a_torn_mark_is_none(tmp_path):
    write(tmp_path, began(9.0), line(10, 10.0))
    with (tmp_path / "metrics.0.jsonl").open("a") as file:
        file.write('{"attempt":"en\n{"attempt":"ended"}\n[]\n')
    assert spans(tmp_path) == [(9.0, 10.0, False)]
    assert read_attempts(tmp_path / "nothing") == []


def test_what_died_after_a_checkpoint_is_lost_and_the_pauses_are_not(tmp_path):
    """Two attempts die after the checkpoint at 20, ten hours apart."""
    first = [
        began(1000.0),
        line(10, 1010.0),
        line(20, 1090.0),
        line(20, 1095.0, "val_loss"),
        line(30, 1100.0),
    ]
    second = [began(37000.0), line(25, 37005.0), line(30, 37010.0)]
    write(tmp_path, *first, *second)
    assert seconds_after(tmp_path, 20) == 5.0 + 10.0
    assert seconds_after(tmp_path, 30) == 0.0
    assert seconds_after(tmp_path, 5) == 0.0


def test_an_attempt_that_only_judged_the_checkpoint_is_lost_whole(tmp_path):
    first = [began(1000.0), line(20, 1090.0), line(30, 1100.0)]
    second = [began(37000.0), line(20, 37010.0, "val_loss")]
    write(tmp_path, *first, *second)
    assert seconds_after(tmp_path, 20) == 10.0 + 10.0


def test_a_clock_that_was_set_between_attempts_is_not_asked(tmp_path):
    first = [began(9000.0), line(20, 9010.0), line(30, 9014.0)]
    write(tmp_path, *first, began(100.0), line(25, 103.0))
    assert seconds_after(tmp_path, 20) == 4.0 + 3.0


def test_a_clock_that_is_set_during_an_attempt_lengthens_nothing(tmp_path, monkeypatch):
    true_time = time.time
    with Recorder(tmp_path, 0) as recorder:
        for number, jump_s in enumerate((0.0, 7200.0, -7200.0), start=1):
            monkeypatch.setattr(time, "time", lambda jump_s=jump_s: true_time() + jump_s)
            recorder.log(number, 8 * number, {"loss": 1.0})
    (attempt,) = read_attempts(tmp_path)
    times = [entry.time for entry in attempt.lines]
    assert times == sorted(times) and attempt.last - attempt.start < 5
    assert seconds_after(tmp_path, 8) < 5


def test_no_metrics_no_seconds(tmp_path):
    assert seconds_after(tmp_path, 1) == 0.0


def test_without_a_checkpoint_all_attempts_are_lost(tmp_path):
    write(tmp_path, began(1000.0), line(10, 1010.0), began(37000.0), line(10, 37005.0), line(20, 37008.0))
    assert seconds_after(tmp_path, None) == 10.0 + 8.0


def test_the_launch_says_since_when_an_attempt_is_paid_for(monkeypatch):
    assert since_launch() == 0.0
    monkeypatch.setenv(LAUNCHED, str(time.monotonic() - 50))
    assert since_launch() == pytest.approx(50, abs=5)


def test_the_median_step_leaves_out_the_first_one_and_what_lies_between_attempts(tmp_path):
    write(
        tmp_path,
        began(900.0),
        *(line(10 * step, 1000.0 + 5 * (step > 0) + step) for step in range(4)),
        began(9000.0),
        *(line(10 * step, 9100.0 + 2 * step) for step in range(4, 7)),
    )
    assert median_step_s(tmp_path) == 1.0  # 1, 1 of the first attempt and 2 of the second
    (tmp_path / "two").mkdir()
    write(tmp_path / "two", began(900.0), line(10, 1000.0), line(20, 1001.0))
    assert median_step_s(tmp_path / "two") is None
