"""Global batch = micro batch x accumulation x ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe import Devices
from hemostat.recipe.batch import split_batch


def test_batch_128_on_one_device_is_16_on_each_of_8():
    assert split_batch(128, num_ranks=8) == split_batch(128, num_ranks=8, micro_batch=16)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"micro_batch": 128}, (1024, 128, 1)),
        ({"micro_batch": 8, "accumulation": 2}, (128, 8, 2)),
        ({"accumulation": 4}, (128, 4, 4)),
        ({"global_batch": 1024}, (1024, 128, 1)),
        ({"global_batch": 1024, "micro_batch": 32}, (1024, 32, 4)),
        ({"global_batch": 1024, "accumulation": 8}, (1024, 16, 8)),
        ({"global_batch": 1000, "micro_batch": 32}, (1000, 32, 4)),
        ({"global_batch": 100, "micro_batch": 7, "accumulation": 2}, (100, 7, 2)),
    ],
)
def test_any_two_determine_the_third(given, found):
    batch = split_batch(128, num_ranks=8, **given)
    assert (batch.global_batch, batch.micro_batch, batch.accumulation) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"global_batch": 100, "micro_batch": 4, "accumulation": 2},
            r"^global_batch=100: contradicts .* = 64\.",
        ),
        ({"global_batch": 7}, r"^global_batch=7: leaves some of num_ranks=8 without a sample"),
        ({"global_batch": 16, "accumulation": 3}, r"^accumulation=3: is more than the 2 samples of a rank"),
        ({"micro_batch": 0}, r"^micro_batch=0: "),
    ],
)
def test_contradictions_are_refused(given, message):
    with pytest.raises(FieldError, match=message):
        split_batch(128, num_ranks=8, **given)


def test_ranks_are_counted_from_one():
    with pytest.raises(FieldError, match=r"^num_ranks=0: "):
        Devices(num_ranks=0)


@given(total=st.integers(1, 5000), ranks=st.integers(1, 64), micro=st.integers(1, 600))
def test_the_largest_slice_of_a_rank_fits(total, ranks, micro):
    if total < ranks:
        return
    batch = split_batch(total, num_ranks=ranks, global_batch=total, micro_batch=micro)
    slices = [total * (rank + 1) // ranks - total * rank // ranks for rank in range(ranks)]
    assert batch.micro_batch * batch.accumulation >= max(slices)
    assert batch.micro_batch <= micro
    assert batch.global_batch == total
