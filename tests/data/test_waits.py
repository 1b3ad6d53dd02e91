"""Waits: totals, share and the verdict's three steps."""

import pytest

from hemostat.data.waits import Waits


@pytest.mark.parametrize(
    ("wait_s", "line"),
    [
        (0.0, "data fine: 0.0 % of the run waited for it"),
        (2.9, "data fine: 2.9 % of the run waited for it"),
        (3.0, "data to watch: 3 % of the run waited for it"),
        (10.0, "data to watch: 10 % of the run waited for it"),
        (14.0, "input-bound: 14 % of the run waited for data"),
    ],
)
def test_verdict(wait_s, line):
    waits = Waits()
    waits.add(wait_s=wait_s, fetch_s=0.0)
    assert waits.verdict(wall_s=100.0) == line


def test_totals():
    waits = Waits()
    for wait_s in (0.5, 2.0, 1.0):
        waits.add(wait_s=wait_s, fetch_s=0.25)
    assert (waits.wait_s, waits.max_wait_s, waits.last_wait_s) == (3.5, 2.0, 1.0)
    assert (waits.fetch_s, waits.num_fetches) == (0.75, 3)
    assert waits.share(7.0) == 0.5


def test_a_run_without_length_has_no_share():
    waits = Waits()
    assert waits.share(0.0) == 0.0
    waits.add(wait_s=3.0, fetch_s=3.0)
    assert waits.share(2.0) == 1.0
