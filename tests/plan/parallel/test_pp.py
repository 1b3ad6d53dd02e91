"""Which parts lie where in a pipeline, and how many micro-batches they are held for."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError
from hemostat.plan.layout import Layout
from hemostat.plan.parallel.pp import even_borders, even_pace, held_by, split
from hemostat.plan.pipelines import in_flight, pipeline
from hemostat.plan.profile import Part, Product, Profile
from hemostat.plan.stages import balance

TABLE, HEAD = Part(name="table", num_params=7), Part(name="head", num_params=5)
BLOCK = Part(name="block", count=10, num_params=3, is_block=True)
TEN = Profile(name="ten", parts=(TABLE, BLOCK, HEAD))


def num_blocks(held) -> int:
    return sum(count for _, count in held.blocks)


def test_stages_are_even_the_first_ones_larger():
    assert even_borders(10, 4) == (0, 3, 6, 8, 10)
    held = held_by(TEN, Layout(pp=4), 8)
    assert [(each.rank, num_blocks(each)) for each in held] == [(0, 3), (1, 3), (2, 2), (3, 2)]
    assert [each.head for each in held] == [(TABLE,), (), (), ()]
    assert [each.tail for each in held] == [(), (), (), (HEAD,)]


@pytest.mark.parametrize(("num_blocks", "num_stages"), [(10, 4), (32, 8), (126, 16), (7, 7)])
def test_they_are_those_that_training_cuts_at_when_blocks_are_equal(num_blocks, num_stages):
    assert even_borders(num_blocks, num_stages) == balance([1.0] * num_blocks, num_stages)


def test_given_borders_are_looked_at_one_by_one():
    held = held_by(TEN, Layout(pp=3), 8, borders=(0, 2, 7, 10))
    assert [num_blocks(each) for each in held] == [2, 5, 3]


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zero_bubble", "interleaved"])
@pytest.mark.parametrize("num_micro_batches", [2, 4, 8])
def test_what_is_in_flight_is_what_the_schedule_counts(name, num_micro_batches):
    stages = 2 if name == "interleaved" else 1
    counted = in_flight(pipeline(name, 4, num_micro_batches, stages))
    layout = Layout(pp=4, schedule=name, stages_per_rank=stages)
    for held in held_by(TEN, layout, num_micro_batches):
        assert held.num_in_flight * stages == counted[held.rank]
        assert held.num_tails == (num_micro_batches if name == "gpipe" else 1)


def test_zero_bubble_puts_off_as_many_weight_parts_as_the_ranks_number():
    held = held_by(TEN, Layout(pp=4, schedule="zero_bubble"), 8)
    assert [each.num_waiting for each in held] == [0, 1, 2, 3]
    assert [each.num_waiting for each in held_by(TEN, Layout(pp=4), 8)] == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "zero_bubble", "interleaved"])
@pytest.mark.parametrize("cuts", [None, (0, 1, 3, 5, 6, 8, 11, 14, 16), (0, 2, 4, 6, 8, 10, 12, 14, 16)])
def test_positions_that_are_left_out_are_no_fuller(name, cuts):
    stages = 2 if name == "interleaved" else 1
    layout = Layout(pp=8 // stages, schedule=name, stages_per_rank=stages)

    def fullest(*counts):
        parts = (TABLE, *(Part(name="block", count=count, is_block=True) for count in counts), HEAD)
        every = held_by(Profile(name="sixteen", parts=parts), layout, 12, cuts or even_borders(16, 8))
        return len(every), [
            max(num_blocks(each) * held for each, held in pairs)
            for pairs in (
                [(each, getattr(each, name)) for each in every] for name in ("num_in_flight", "num_waiting")
            )
        ]

    (few, some), (all_of_them, every) = fullest(16), fullest(8, 8)  # two kinds are looked at one by one
    assert some == every
    assert few <= all_of_them == layout.pp


def test_the_head_is_worth_blocks_where_the_pace_is_even():
    one = (Product(rows=1, inner=8, columns=8),)
    block, head = (
        Part(name="block", count=8, products=one, is_block=True),
        Part(name="head", products=2 * one),
    )
    table = Part(name="table", products=one)
    assert even_pace(Profile(name="small", parts=(block, head)), 2) == balance([1.0] * 8, 2, 0.0, 2.0)
    assert even_pace(Profile(name="small", parts=(table, block, head)), 4) == balance([1.0] * 8, 4, 1.0, 2.0)


def test_interleaved_ranks_hold_several_pieces():
    held = held_by(TEN, Layout(pp=2, stages_per_rank=2), 4)
    assert [num_blocks(each) for each in held] == [5, 5]


def test_what_passes_between_stages_is_the_input_of_the_block_behind_the_cut():
    wide, narrow = (Part(name=str(size), count=2, input_bytes=size, is_block=True) for size in (9, 4))
    model = Profile(name="narrowing", parts=(wide, narrow, HEAD))
    held = held_by(model, Layout(pp=2), 4)
    assert [(each.received_bytes, each.sent_bytes) for each in held] == [(0, 4), (4, 0)]
    held = held_by(model, Layout(pp=2, stages_per_rank=2), 4)
    assert [(each.received_bytes, each.sent_bytes) for each in held] == [(4, 9 + 4), (9 + 4, 4)]


def test_unlike_blocks_are_looked_at_on_every_position():
    parts = (*(Part(name=str(number), is_block=True) for number in range(8)), HEAD)
    assert [each.rank for each in held_by(Profile(name="eight", parts=parts), Layout(pp=8), 4)] == list(
        range(8)
    )


def test_more_stages_than_blocks_are_refused():
    with pytest.raises(FieldError, match=r"layout\.pp=12: makes more stages than the 10 blocks"):
        held_by(TEN, Layout(pp=12), 4)


def test_a_model_without_blocks_ends_with_its_last_part():
    assert split(Profile(name="flat", parts=(TABLE, HEAD))) == ((TABLE,), (), (HEAD,))
    between = Part(name="between", num_params=1)
    parts = (TABLE, BLOCK, between, BLOCK, HEAD)
    assert [count for _, count in split(Profile(name="two", parts=parts))[1]] == [10, 1, 10]
    held = held_by(Profile(name="two", parts=parts), Layout(pp=2), 4)
    assert [[part.name for part, _ in each.blocks] for each in held] == [["block", "between"], ["block"]]
