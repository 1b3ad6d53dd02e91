"""Parts: each sample once, even shares of every part, and the ids split into the runs that a reader asks for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.data.parts import Parts

LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=8)


@given(LENGTHS, st.integers(1, 40))
def test_the_windows_of_an_epoch_hold_each_sample_once(lengths, size):
    parts, total = Parts(lengths), sum(lengths)
    found = [parts.window(start, min(start + size, total)) for start in range(0, total, size)]
    assert sorted(np.concatenate(found).tolist()) == list(range(total))
    assert all((np.diff(ids) > 0).all() for ids in found)


@given(LENGTHS, st.integers(1, 20))
def test_any_number_of_rows_takes_as_much_of_each_part(lengths, rows):
    parts = Parts([max(lengths)] * len(lengths))
    rows = min(rows, max(lengths))
    ids = parts.window(0, rows * len(lengths))
    assert [count for _, _, count in parts.runs(ids)] == [rows] * len(lengths)


@given(LENGTHS, st.data())
def test_runs_spell_the_ids_out_again(lengths, data):
    parts, total = Parts(lengths), sum(lengths)
    start = data.draw(st.integers(0, total - 1))
    ids = parts.window(start, data.draw(st.integers(start + 1, total)))
    firsts = np.cumsum([0, *lengths])
    again = [firsts[part] + first + k for part, first, count in parts.runs(ids) for k in range(count)]
    assert again == ids.tolist()


def test_one_part_is_in_its_own_order():
    assert Parts([9]).window(3, 6).tolist() == [3, 4, 5]


@pytest.mark.parametrize("position", [0, 4, 5, 9, 12])
def test_a_short_part_ends_and_the_others_go_on(position):
    parts = Parts([2, 6, 4])
    # row by row: 0 2 8 | 1 3 9 | 4 10 | 5 11 | 6 | 7
    order = [0, 2, 8, 1, 3, 9, 4, 10, 5, 11, 6, 7]
    assert parts.window(0, position).tolist() == sorted(order[:position])
    assert parts.window(position, 12).tolist() == sorted(order[position:])
