from __future__ import annotations

import multiprocessing
import os
import socket

import pytest

from hemostat.errors import RecordError
from hemostat.tune.journal import Began, Ended, Finished, Journal, Measured, Ordered, read_journal
from hemostat.tune.settings import Settings

ENTRIES = [
    Began(at_s=0.0, settings=Settings(length=9, step=1, about={"sampler": "kde"}), rungs=(3, 9)),
    Ordered(at_s=0.0, trial=0, start=0, until=3, config={"lr": 0.1, "kind": "a"}, origin="recipe"),
    Measured(at_s=1.5, trial=0, at=3, value=0.5, time_s=1.5),
    Measured(at_s=1.6, trial=0, at=4, value="nan", time_s=1.6),
    Ended(at_s=1.6, trial=0, outcome="nan", time_s=1.6, why="gave NaN"),
    Finished(at_s=1.6, reason="enough"),
]


def write(path, entries=ENTRIES):
    with Journal(path) as journal:
        for entry in entries:
            journal.append(entry)


def test_what_was_written_is_read_by_anybody_and_by_the_next_who_goes_on(tmp_path):
    path = tmp_path / "studies" / "lr" / "journal.jsonl"
    write(path)
    assert read_journal(path) == ENTRIES
    with Journal(path) as journal:
        assert journal.entries == ENTRIES


def test_a_cut_line_is_dropped_wherever_the_cut_is(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path)
    data = path.read_bytes()
    for num_bytes in range(len(data) + 1):
        path.write_bytes(data[:num_bytes])
        whole = data[:num_bytes].count(b"\n")
        assert read_journal(path) == ENTRIES[:whole]
    path.write_bytes(data[:-5])
    with Journal(path) as journal:
        journal.append(ENTRIES[-1])
    assert path.read_bytes() == data


def test_zeros_after_a_power_cut_are_dropped(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path)
    path.write_bytes(path.read_bytes() + b"\0" * 40 + b"\n")
    assert read_journal(path) == ENTRIES


def test_damage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    with pytest.raises(RecordError, match="line 2 is no entry"):
        Journal(path)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(RecordError, match="does not begin with a study"):
        read_journal(path)


def test_no_journal(tmp_path):
    with pytest.raises(RecordError, match="cannot be read"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_second_controller_is_refused_and_the_first_one_named(tmp_path):
    path = tmp_path / "lr" / "journal.jsonl"
    with Journal(path) as journal:
        with pytest.raises(
            RecordError, match=f"process {os.getpid()} on {socket.gethostname()} is running it"
        ):
            Journal(path)
        journal.append(ENTRIES[0])
    assert Journal(path).entries == ENTRIES[:1]


def _hold_and_die(path):
    Journal(path).append(ENTRIES[0])
    os.kill(os.getpid(), 9)


def test_a_killed_controller_holds_nothing(tmp_path):
    path = tmp_path / "journal.jsonl"
    child = multiprocessing.get_context("fork").Process(target=_hold_and_die, args=(path,))
    child.start()
    child.join(60)
    assert child.exitcode == -9
    with Journal(path) as journal:
        assert journal.entries == ENTRIES[:1]


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    write(path, ENTRIES[:2])
    journal = Journal(path)
    real = os.write

    def half(file, data):
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return real(file, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(RecordError, match="the disk is full"):
            journal.append(ENTRIES[2])
    assert journal.entries == ENTRIES[:2]
    journal.append(ENTRIES[2])
    assert read_journal(path) == ENTRIES[:3]


def test_a_closed_journal_takes_nothing(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.close()
    journal.close()
    with pytest.raises(RecordError, match="is closed"):
        journal.append(ENTRIES[0])
