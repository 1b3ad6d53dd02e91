"""Windows never cross an epoch; shares are even, contiguous and complete."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.data import Feed
from hemostat.data.windows import share, windows
from hemostat.errors import FieldError, TaskError


@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 200))
def test_windows_cover_every_position_once(num_samples, global_batch, total_samples):
    feed = Feed(seed=0, global_batch=global_batch, total_samples=total_samples)
    seen = [
        window.epoch * num_samples + at
        for window in windows(feed, num_samples)
        for at in range(window.start, window.stop)
    ]
    assert seen == list(range(total_samples))


@given(st.integers(1, 60), st.integers(1, 25), st.integers(1, 4))
def test_steps_of_an_epoch_are_the_batches_rounded_up(num_samples, global_batch, num_epochs):
    feed = Feed(seed=0, global_batch=global_batch, total_samples=num_samples * num_epochs)
    found = list(windows(feed, num_samples))
    assert len(found) == num_epochs * -(-num_samples // global_batch)
    assert [window.position for window in found][-1] == num_samples * num_epochs


def test_a_run_may_end_inside_an_epoch():
    feed = Feed(seed=0, global_batch=4, total_samples=7)
    assert [window.stop - window.start for window in windows(feed, 100)] == [4, 3]


@given(st.integers(0, 1000), st.integers(1, 40))
def test_shares_are_complete_and_even(num_items, num_parts):
    bounds = [share(num_items, part, num_parts) for part in range(num_parts)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == num_items
    assert all(left[1] == right[0] for left, right in pairwise(bounds))
    sizes = [high - low for low, high in bounds]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 8), st.integers(1, 9), st.integers(1, 20), st.data())
def test_micro_batches_never_grow_in_a_ragged_window(num_ranks, accumulation, micro_batch, data):
    feed = Feed(
        seed=0,
        global_batch=num_ranks * accumulation * micro_batch,
        total_samples=1,
        accumulation=accumulation,
        num_ranks=num_ranks,
    )
    window_samples = data.draw(st.integers(1, feed.global_batch))
    parts = feed.num_micro_batches(window_samples)
    assert 1 <= parts <= accumulation
    largest_share = -(-window_samples // num_ranks)
    assert -(-largest_share // parts) <= micro_batch
    if window_samples == feed.global_batch:
        assert parts == accumulation


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_batch": 0}, "global_batch=0: must be a whole number, 1 or more"),
        ({"total_samples": 0}, "total_samples=0: must be a whole number, 1 or more"),
        ({"accumulation": -1}, "accumulation=-1: must be a whole number, 1 or more"),
        ({"global_batch": 2.5}, "global_batch=2.5: must be a whole number, 1 or more. Write it like"),
        ({"seed": "x"}, "seed='x': must be a whole number"),
        ({"rank": 2, "num_ranks": 2}, r"rank=2: must lie in 0\.\.1"),
        ({"global_batch": 3, "num_ranks": 4}, "global_batch=3: is smaller than the number of ranks"),
    ],
)
def test_impossible_feed(changes, message):
    with pytest.raises(FieldError, match=message):
        Feed(**{"seed": 0, "global_batch": 8, "total_samples": 10} | changes).check(100)


def test_fewer_samples_than_ranks_is_said_by_every_rank_alike():
    messages = set()
    for rank in range(4):
        with pytest.raises(TaskError, match="3 samples for 4 ranks") as caught:
            Feed(seed=0, global_batch=8, total_samples=10, rank=rank, num_ranks=4).check(3)
        messages.add(str(caught.value))
    assert len(messages) == 1
