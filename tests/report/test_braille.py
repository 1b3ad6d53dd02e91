import math

from hypothesis import given
from hypothesis import strategies as st

from hemostat.report.braille import curve

BLANK = chr(0x2800)


def heights(lines: list[str]) -> list[int]:
    """Row of the highest dot of each dot column, counted from the top."""
    rows = []
    for column in range(2 * len(lines[0])):
        bits = [(0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)][column % 2]
        cells = [ord(line[column // 2]) - 0x2800 for line in lines]
        found = [4 * row + dot for row, cell in enumerate(cells) for dot in range(4) if cell & bits[dot]]
        rows.append(found[0] if found else -1)
    return rows


def test_a_falling_curve_falls():
    rows = heights(curve([10 - x for x in range(200)], width=20, height=3))
    assert rows == sorted(rows) and rows[0] == 0 and rows[-1] == 11


def test_few_values_are_stretched_over_the_width():
    rows = heights(curve([2.0, 1.0], width=5, height=1))
    assert rows == [0] * 5 + [3] * 5


def test_a_spike_does_not_hide_the_trend():
    values = [1.0] * 1000
    values[500] = 1e9
    assert set(heights(curve(values, width=10, height=2))) == {7}


def test_gaps_stay_gaps_and_nothing_is_nothing():
    assert curve([]) == [] and curve([math.nan, math.inf]) == []
    assert heights(curve([1.0, math.nan, 2.0, math.nan], width=2, height=1)) == [3, -1, 0, -1]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=300))
def test_any_values_give_lines_of_the_asked_size(values):
    lines = curve(values, width=13, height=2)
    assert lines == [] or [len(line) for line in lines] == [13, 13]
    assert all(0x2800 <= ord(mark) <= 0x28FF for line in lines for mark in line)
