"""1F1B: the order of the paper's figure, and its memory that does not grow with the micro-batches."""

from __future__ import annotations

import pytest

from hemostat.plan.pipelines import Action, Size, StageTime, one_f_one_b
from hemostat.plan.pipelines.one_f_one_b import take_turns


@pytest.mark.parametrize(
    ("rank", "order"),
    [
        # Narayanan et al. 2021, figure 4 above, counted from 0
        (0, "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7"),
        (1, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7"),
        (2, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7"),
        (3, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"),
    ],
)
def test_the_order_is_that_of_the_paper(rank, order):
    found = one_f_one_b.order(rank, Size(4, 8))
    assert [str(action) for action in found] == [f"{rank}{text}" for text in order.split()]


def test_fewer_micro_batches_than_ranks_all_go_ahead():
    assert " ".join(map(str, one_f_one_b.order(0, Size(4, 2)))) == "0F0 0F1 0B0 0B1"
    assert one_f_one_b.in_flight(0, Size(4, 2)) == 2


def test_bubble_and_memory():
    assert one_f_one_b.bubble(Size(8, 32), StageTime(1.0, 0.2, 3.0)) == 7 / 32
    assert [one_f_one_b.in_flight(rank, Size(4, 64)) for rank in range(4)] == [4, 3, 2, 1]


@pytest.mark.parametrize(("num_ahead", "order"), [(0, "F0 B0 F1 B1"), (1, "F0 F1 B0 B1"), (2, "F0 F1 B0 B1")])
def test_nothing_is_lost_in_taking_turns(num_ahead, order):
    passes = [[Action(0, kind, number) for number in range(2)] for kind in ("forward", "backward")]
    assert [str(action)[1:] for action in take_turns(*passes, num_ahead)] == order.split()
