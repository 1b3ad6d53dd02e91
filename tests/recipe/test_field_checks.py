"""Numbers in and out of their range."""

import math

import pytest

from hemostat.errors import FieldError
from hemostat.recipe.field_checks import check_int, check_number


@pytest.mark.parametrize("value", [None, 1, 10**12])
def test_good_counts_pass(value):
    check_int("n", value, minimum=1)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, math.nan])
def test_other_counts_are_refused(value):
    with pytest.raises(FieldError, match=r"^n=.*: must be a whole number, 1 or more\. "):
        check_int("n", value, minimum=1)


def test_ranges_of_numbers():
    check_number("x", 0.0)
    check_number("x", None, above=0.0)
    check_number("x", 0.5, above=0.0, below=1.0)
    for value, above, below in (
        (0.0, 0.0, None),
        (1.0, None, 1.0),
        (-0.1, None, None),
        (math.inf, None, None),
    ):
        with pytest.raises(FieldError, match=r"^x="):
            check_number("x", value, above=above, below=below)
    with pytest.raises(FieldError, match=r"must be a number above 0, below 1\. "):
        check_number("x", "half", above=0.0, below=1.0)
