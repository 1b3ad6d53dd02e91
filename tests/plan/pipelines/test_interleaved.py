"""Interleaved 1F1B: the paper's order where m is a multiple of p, and rounds that work for every other m."""

from __future__ import annotations

import pytest

from hemostat.plan.pipelines import Size, StageTime, check, in_flight, interleaved, one_f_one_b, pipeline
from hemostat.plan.pipelines.interleaved import num_ahead, round_sizes


def test_the_order_is_that_of_the_paper():
    # Narayanan et al. 2021, figure 4 below, device 1, counted from 0; stage 4 is its second one
    ahead = "0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5"
    turns = "0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1"
    rest = "0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7"
    found = interleaved.order(0, Size(4, 8, 2))
    assert [str(action) for action in found] == f"{ahead} {turns} {rest}".split()


def test_one_stage_per_rank_is_1f1b():
    for rank in range(4):
        assert interleaved.order(rank, Size(4, 6)) == one_f_one_b.order(rank, Size(4, 6))
        assert interleaved.in_flight(rank, Size(4, 6)) == one_f_one_b.in_flight(rank, Size(4, 6))


def test_rounds_are_even_and_none_is_shorter_than_the_pipeline():
    for num_ranks in range(1, 17):
        for num_micro_batches in range(1, 65):
            rounds = round_sizes(num_micro_batches, num_ranks)
            assert sum(rounds) == num_micro_batches
            assert rounds == sorted(rounds, reverse=True)
            assert rounds[0] - rounds[-1] <= 1
            assert rounds[-1] >= min(num_ranks, num_micro_batches)
            if num_micro_batches % num_ranks == 0:
                assert rounds == [num_ranks] * (num_micro_batches // num_ranks)


@pytest.mark.parametrize("stages_per_rank", [2, 3, 4])
def test_any_number_of_micro_batches_runs(stages_per_rank):
    for num_ranks in (2, 3, 5, 8):
        for num_micro_batches in range(1, 20):
            check(pipeline("interleaved", num_ranks, num_micro_batches, stages_per_rank))


def test_memory_on_the_first_rank():
    # Korthikanti et al. 2022, section 4.2.3: 1 + (p - 1) / (p v) of what 1F1B holds there
    p, v = 8, 5
    held = in_flight(pipeline("interleaved", p, 16, v))[0] / v
    assert held == pytest.approx(p * (1 + (p - 1) / (p * v)))


def test_a_larger_first_round_holds_more():
    assert [num_ahead(rank, Size(4, 8, 2)) for rank in range(4)] == [10, 8, 6, 4]
    assert [num_ahead(rank, Size(4, 7, 2)) for rank in range(4)] == [13, 11, 9, 7]


def test_the_bubble_of_a_round_shorter_than_the_pipeline():
    # 3 ranks, 2 micro-batches, 2 stages each: 4 passes and back, and 3 idle ones on every rank
    assert interleaved.bubble(Size(3, 2, 2), StageTime()) == 3 / 4
    assert interleaved.bubble(Size(3, 3, 2), StageTime()) == 2 / 6
