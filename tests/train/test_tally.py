import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.train.process import World
from hemostat.train.tally import Tally, part_borders, ratio_error


def tallied(blocks, num_parts=None, rows=True):
    """Blocks of (sum, count) rows, one figure."""
    tally = Tally(num_parts or len(blocks))
    for number, block in enumerate(blocks):
        pair = {"loss": (sum(s for s, _ in block), sum(c for _, c in block))}
        tally.add(number, pair, [{"loss": row} for row in block] if rows else None)
    return tally.pooled(World())["loss"]


def test_with_counts_of_one_it_is_the_standard_error_of_a_mean():
    draw = random.Random(1)
    values = [draw.gauss(3, 2) for _ in range(40)]
    blocks = [[(value, 1.0) for value in values[start : start + 7]] for start in range(0, 40, 7)]
    figure = tallied(blocks)
    assert figure.value == pytest.approx(statistics.fmean(values))
    assert figure.standard_error == pytest.approx(statistics.stdev(values) / math.sqrt(40))
    assert figure.unit == "sample"


def test_without_rows_the_batches_are_the_units():
    blocks = [[(1.0, 1.0), (3.0, 1.0)], [(5.0, 1.0)], [(2.0, 1.0), (0.0, 1.0)]]
    figure = tallied(blocks, rows=False)
    mean, count = 11 / 5, 5
    residuals = [4 - 2 * mean, 5 - mean, 2 - 2 * mean]
    assert figure.value == pytest.approx(mean)
    assert figure.standard_error == pytest.approx(math.sqrt(3 / 2 * sum(r * r for r in residuals)) / count)
    assert figure.unit == "batch"


def test_it_tells_the_spread_of_repeated_draws():
    """Sentences of unlike length: the error of one data set agrees with the spread over many."""
    draw = random.Random(0)

    def data_set():
        rows = []
        for _ in range(300):
            count = draw.randint(1, 30)
            rows.append((sum(draw.expovariate(1.0) for _ in range(count)), float(count)))
        return tallied([rows])

    figures = [data_set() for _ in range(200)]
    spread = statistics.stdev(figure.value for figure in figures)
    assert statistics.fmean(figure.standard_error for figure in figures) == pytest.approx(spread, rel=0.15)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.5, 100)), min_size=4, max_size=30), st.integers(1, 4)
)
def test_ranks_get_the_bits_of_one_process(rows, num_ranks):
    parts = [rows[low:high] for low, high in part_borders(len(rows), 4)]
    alone = tallied(parts)
    ranks = []
    for rank in range(num_ranks):
        tally = Tally(4)
        for part in range(4 * rank // num_ranks, 4 * (rank + 1) // num_ranks):
            block = parts[part]
            pair = {"loss": (sum(s for s, _ in block), sum(c for _, c in block))}
            tally.add(part, pair, [{"loss": row} for row in block])
        ranks.append(tally)

    class Summed(World):
        def sum(self, values):
            width = len(values)
            flats = [tally._sums.get("loss", [0.0] * width) for tally in ranks]
            return [sum(column) for column in zip(*flats, strict=True)]

    assert ranks[-1].pooled(Summed()) == {"loss": alone}


def test_rows_that_do_not_add_up_are_not_trusted():
    tally = Tally(2)
    for part in range(2):
        tally.add(
            part,
            {"loss": (10.0 + part, 2.0), "f": (1.0 + part, 2.0)},
            [{"loss": (4.0, 1.0)}, {"loss": (4.0, 1.0)}],
        )
    figures = tally.pooled(World())
    assert figures["loss"].unit == "batch" and figures["f"].unit == "batch"


def test_what_has_no_error():
    assert tallied([[(1.0, 1.0)]]).standard_error is None
    nothing = tallied([[(0.0, 0.0)], [(0.0, 0.0)]])
    assert math.isnan(nothing.value) and nothing.standard_error is None and nothing.unit == "none"
    broken = tallied([[(math.nan, 1.0)], [(1.0, 1.0)]])
    assert math.isnan(broken.value) and broken.standard_error is None
    assert ratio_error(2.0, 4.0, 2.0, 1.0, 1.0, 1) is None
    for value in (0.0, 1.0, 0.1):
        alike = tallied([[(value, 1.0)] * 20])
        assert alike.value == pytest.approx(value) and alike.standard_error is None


def test_parts_are_whole_and_in_order():
    for num_blocks in (1, 5, 64, 1000):
        borders = part_borders(num_blocks, min(num_blocks, 7))
        assert [block for low, high in borders for block in range(low, high)] == list(range(num_blocks))
        assert all(high > low for low, high in borders)
