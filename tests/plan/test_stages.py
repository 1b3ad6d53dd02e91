"""Cutting blocks into stages, against every cut there is."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.plan import balance


def stage_costs(costs, borders, extra_first=0.0, extra_last=0.0):
    parts = [sum(map(Fraction, costs[begin:end])) for begin, end in pairwise(borders)]
    parts[0] += Fraction(extra_first)
    parts[-1] += Fraction(extra_last)
    return parts


def best_by_trying_all(costs, num_stages, extra_first, extra_last):
    def key(borders):
        parts = stage_costs(costs, borders, extra_first, extra_last)
        sizes = [end - begin for begin, end in pairwise(borders)]
        return max(parts), sum(part * part for part in parts), [-size for size in sizes]

    inner = combinations(range(1, len(costs)), num_stages - 1)
    return min(((0, *cuts, len(costs)) for cuts in inner), key=key)


cost = st.one_of(st.integers(0, 5), st.floats(0, 1e6), st.sampled_from([0.1, 0.2, 0.3, 1e-30, 1e18]))


@settings(max_examples=200, deadline=None)
@given(st.lists(cost, min_size=1, max_size=9), st.integers(1, 9), cost, cost)
def test_no_other_cut_is_better(costs, num_stages, extra_first, extra_last):
    num_stages = min(num_stages, len(costs))
    found = balance(costs, num_stages, extra_first, extra_last)
    assert found == best_by_trying_all(costs, num_stages, extra_first, extra_last)


@pytest.mark.parametrize(
    ("costs", "num_stages", "extras", "borders"),
    [
        ([1] * 24, 2, (0, 0), (0, 12, 24)),
        ([1] * 24, 2, (1, 5), (0, 14, 24)),  # 15 and 15
        ([1] * 24, 4, (0, 6), (0, 8, 16, 23, 24)),  # 8, 8, 7, 7; as even as 8, 7, 7, 8
        ([1] * 10, 4, (0, 0), (0, 3, 6, 8, 10)),  # equal, so most blocks go first
        ([1] * 4, 4, (9, 9), (0, 1, 2, 3, 4)),
        ([5], 1, (1, 1), (0, 1)),
        ([1, 1, 1, 9], 2, (0, 0), (0, 3, 4)),
        ([9, 1, 1, 1], 2, (0, 0), (0, 1, 4)),
        ([0, 0, 0], 2, (0, 0), (0, 2, 3)),
    ],
)
def test_cuts_by_hand(costs, num_stages, extras, borders):
    assert balance(costs, num_stages, *extras) == borders


def test_a_head_that_outweighs_all_leaves_one_block_on_the_last_stage():
    borders = balance([1.0] * 12, 4, extra_last=100.0)
    assert borders == (0, 4, 8, 11, 12)


def test_rounding_does_not_choose():
    # 0.1 + 0.2 > 0.3 as floats; the exact sums of these floats decide, and always the same way
    costs = [0.1, 0.2, 0.3] * 4
    assert len({balance(costs, 3) for _ in range(3)}) == 1
    assert max(stage_costs(costs, balance(costs, 3))) <= max(stage_costs(costs, (0, 4, 8, 12)))


def test_hundreds_of_blocks_are_cut_at_once():
    costs = [1.0 + (index * 7919 % 13) / 100 for index in range(800)]
    borders = balance(costs, 64, extra_first=3.0, extra_last=9.0)
    parts = stage_costs(costs, borders, 3.0, 9.0)
    assert len(parts) == 64
    assert max(parts) < sum(parts) / 64 * Fraction(11, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 1.0], 3), "num_stages=3: is more than the 2 blocks of the model. Give a layout with pp"),
        (([1.0], 2), "num_stages=2: is more than the 1 block of the model"),
        (([], 1), "num_stages=1: is more than the 0 blocks"),
        (([1.0], 0), "num_stages=0: must be 1 or more"),
        (([1.0, -1.0], 1), "costs=-1.0: must be finite and not negative"),
        (([1.0, math.nan], 1), "costs=nan: must be finite"),
        (([1.0], 1, math.inf), "costs=inf: must be finite"),
    ],
)
def test_what_cannot_be_cut_is_refused(arguments, message):
    with pytest.raises(FieldError) as caught:
        balance(*arguments)
    assert message in str(caught.value)
