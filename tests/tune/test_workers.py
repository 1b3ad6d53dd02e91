from __future__ import annotations

import time

from hemostat.tune.workers import Clock


def test_the_clock_goes_on_where_the_journal_ended():
    clock = Clock(1000.0)
    first = clock.now_s()
    assert 1000.0 <= first <= clock.now_s() < 1010.0


def test_a_change_of_the_date_does_not_move_it(monkeypatch):
    clock = Clock()
    for hours in (-5, 7):
        monkeypatch.setattr(time, "time", lambda hours=hours: 1.8e9 + hours * 3600.0)
        assert 0.0 <= clock.now_s() < 10.0
