"""ZB-H1: the figures of the paper, at the memory of 1F1B."""

from __future__ import annotations

import pytest

from hemostat.plan.pipelines import Size, StageTime, in_flight, pipeline, simulate, zero_bubble


def test_the_order_is_that_of_the_paper():
    # Qi et al. 2023, figure 3: the last of 4 ranks puts off three weight parts, the first none
    first = "F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5"
    last = "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5"
    for rank, order in ((0, first), (3, last)):
        found = zero_bubble.order(rank, Size(4, 6))
        assert [str(action)[1:] for action in found] == order.split()


def test_the_bubble_is_that_of_table_2():
    time = StageTime(forward_s=2.0, backward_input_s=2.5, backward_weight_s=1.5)
    played = simulate(pipeline("zero_bubble", 4, 8), [time] * 4)
    assert played.makespan_s - 8 * 6.0 == pytest.approx(3 * (2.0 + 2.5 - 1.5))
    assert played.bubble == pytest.approx(zero_bubble.bubble(Size(4, 8), time))


def test_a_third_of_the_bubble_of_1f1b():
    assert simulate(pipeline("zero_bubble", 8, 24)).bubble == pytest.approx(
        simulate(pipeline("1f1b", 8, 24)).bubble / 3
    )


@pytest.mark.parametrize("num_micro_batches", [1, 2, 3, 4, 5, 16])
def test_memory_is_even_and_no_more_than_the_first_rank_of_1f1b(num_micro_batches):
    order = pipeline("zero_bubble", 4, num_micro_batches)
    assert in_flight(order) == (min(4, num_micro_batches),) * 4
    until_input = tuple(min(num_micro_batches, 4 - rank) for rank in range(4))
    assert in_flight(order, until_weight=False) == until_input
