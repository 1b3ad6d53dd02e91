"""Counts: whole numbers of Python and numpy pass, everything else is refused with the repair."""

import numpy as np
import pytest
import torch

from hemostat.data.checks import check_count, check_rank
from hemostat.errors import FieldError


def test_whole_numbers_pass():
    for value in (1, 10**30, np.int64(3)):
        check_count("num", value)
    check_count("num", 0, 0)
    check_rank(np.int32(1), 2)


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, "a", None, True, [1], torch.tensor(2), np.array([2])])
def test_everything_else_does_not(value):
    with pytest.raises(
        FieldError, match=r"num=.*: must be a whole number, 1 or more\. Write it like num=1\."
    ):
        check_count("num", value)


@pytest.mark.parametrize(("rank", "num_ranks"), [(2, 2), (-1, 2), (0.5, 2), ("0", 2), (0, 0), (0, 1.5)])
def test_a_rank_is_one_of_so_many(rank, num_ranks):
    with pytest.raises(FieldError, match="rank"):
        check_rank(rank, num_ranks)
