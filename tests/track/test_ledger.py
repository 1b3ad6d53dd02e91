import json
import os
import shutil
import time

import pytest

from hemostat.track import create_run, list_runs, update_run
from hemostat.track.exits import write_exit
from hemostat.track.ledger import FILE, first_time, read_ledger, spent_by


@pytest.fixture
def make(tmp_path):
    def make(name, lines=(), price=36.0, **fields):
        path = create_run(tmp_path, name, {"kind": "train"})
        update_run(path, created=1000.0, hardware={"usd_per_hour": price}, **fields)
        texts = [
            json.dumps(
                moment
                if isinstance(moment, dict)
                else {"step": n, "samples": 8 * n, "time": moment, "values": {"loss": 1.0}}
            )
            for n, moment in enumerate(lines, start=1)
        ]
        (path / "metrics.0.jsonl").write_text("".join(f"{text}\n" for text in texts))
        return path

    return make


def began(moment):
    return {"attempt": "began", "time": moment}


def ended(moment):
    return {"attempt": "ended", "time": moment}


def seconds(root):
    return {spent.run: spent.seconds for spent in read_ledger(root)}


def test_the_summary_counts_where_there_is_one(make, tmp_path):
    make("a-run", [1010.0, 1500.0], summary={"spent_s": 120.0, "ended": 1501.0})
    (spent,) = read_ledger(tmp_path)
    assert (spent.run, spent.seconds, spent.usd, spent.ended) == ("a-run", 120.0, 1.2, 1501.0)


def test_a_killed_run_is_counted_from_its_start_to_its_last_line(make, tmp_path):
    make("killed", [1010.0, 1100.0])
    (spent,) = read_ledger(tmp_path)
    assert (spent.seconds, spent.usd) == (100.0, 1.0)


def test_a_hang_before_the_kill_is_paid_too(make, tmp_path):
    path = make("hung", [1010.0, 1100.0])
    hour_ago = time.time() - 3600
    os.utime(path / "metrics.0.jsonl", (hour_ago, hour_ago))
    write_exit(path, 0, 137, "killed")
    (spent,) = read_ledger(tmp_path)
    assert spent.seconds == pytest.approx(100.0 + 3600, abs=5)


def test_the_pause_between_two_attempts_costs_nothing(make, tmp_path):
    lines = [began(1000.0), 1100.0, began(9000.0), 9100.0, 9200.0, began(20000.0), 20050.0]
    make("thrice", lines)
    assert seconds(tmp_path) == {"thrice": 100.0 + 200.0 + 50.0}
    summary = {"spent_s": 90.0, "ended": 1101.0}
    make("ended-then-killed", [began(1000.0), 1100.0, ended(1101.0), *lines[2:5]], summary=summary)
    assert seconds(tmp_path)["ended-then-killed"] == 90.0 + 200.0
    killed_twice = [*lines[:5], began(20000.0), 20050.0, ended(20051.0)]
    make("killed-then-ended", killed_twice, summary={"spent_s": 350.0, "ended": 20051.0})
    assert seconds(tmp_path)["killed-then-ended"] == 350.0


def test_an_attempt_that_died_before_it_saved_costs_its_own_time_only(make, tmp_path):
    """Another attempt died in the same interval, ten hours before."""
    path = make("spot", price=36.0)
    rows = [(10, 1010.0), (20, 1095.0), (30, 1100.0), began(37000.0), (25, 37005.0), (30, 37010.0)]
    texts = [
        json.dumps(
            row if isinstance(row, dict) else {"step": 1, "samples": row[0], "time": row[1], "values": {}}
        )
        for row in rows
    ]
    (path / "metrics.0.jsonl").write_text("".join(f"{text}\n" for text in texts))
    assert seconds(tmp_path) == {"spot": 100.0 + 10.0}
    assert read_ledger(tmp_path)[0].usd == pytest.approx(1.10)


def test_clocks_that_jump_cost_nothing(make, tmp_path):
    """Back between two attempts, and forth while nobody writes a line."""
    make(
        "back",
        [began(90000.0), 90100.0, ended(90101.0), began(50.0), 80.0],
        summary={"spent_s": 7.0, "ended": 90101.0},
    )
    assert seconds(tmp_path) == {"back": 7.0 + 30.0}
    path = make("forth", [began(1000.0), 1010.0])
    write_exit(path, 0, 137, "killed")  # by a clock that is years ahead of that of the lines
    assert seconds(tmp_path)["forth"] == pytest.approx(10.0, abs=5)


def test_without_a_price_only_time_is_known(make, tmp_path):
    make("free", [1010.0], price=None)
    assert read_ledger(tmp_path)[0].usd is None


def test_a_run_without_a_step_and_one_that_cannot_be_read_cost_nothing(make, tmp_path):
    make("unstarted")
    (make("garbled", [1010.0]) / "run.json").write_text("{")
    assert read_ledger(tmp_path) == []


def test_a_deleted_run_stays_and_a_deleted_ledger_loses_no_other(make, tmp_path):
    gone = make("gone", [1050.0])
    assert seconds(tmp_path) == {"gone": 50.0}
    shutil.rmtree(gone)
    make("there", [1010.0])
    assert seconds(tmp_path) == {"gone": 50.0, "there": 10.0}
    (tmp_path / FILE).write_text("garbled")
    assert seconds(tmp_path) == {"there": 10.0}
    (tmp_path / FILE).unlink()
    (tmp_path / "index.sqlite").unlink()
    assert seconds(tmp_path) == {"there": 10.0}


def test_what_is_said_once_is_said_once(make, tmp_path):
    make("a-run", [1010.0])
    assert [first_time(tmp_path, "warned", mark) for mark in (50, 50, 80, 50)] == [True, False, True, False]
    assert seconds(tmp_path) == {"a-run": 10.0}  # one file for both
    assert not first_time(tmp_path, "warned", 80)


def test_the_ledger_is_no_run(make, tmp_path):
    make("a-run", [1010.0])
    read_ledger(tmp_path)
    assert (tmp_path / FILE).exists()
    (record,) = list_runs(tmp_path)
    assert spent_by(record).run == "a-run"
