"""Three numbers make a decoder of that size."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError
from hemostat.plan.families import decoder_from_numbers


@pytest.mark.parametrize("num_params", [320e6, 350e6, 1e9])
def test_the_table_of_words_takes_up_what_the_blocks_leave(num_params):
    decoder = decoder_from_numbers(num_params, 24, 1024)
    assert decoder.num_params == pytest.approx(num_params, abs=1024)
    assert (decoder.num_layers, decoder.hidden, decoder.ffn, decoder.num_heads) == (24, 1024, 4096, 16)


def test_without_a_number_of_parameters_it_is_gpt2():
    assert decoder_from_numbers(None, 12, 768).num_params == 124_439_808


@pytest.mark.parametrize(
    ("numbers", "said"),
    [((1e6, 24, 1024), "params='1e.06': is less than the"), ((1e9, 0, 1024), "num_layers=0")],
)
def test_numbers_that_contradict_each_other_are_refused(numbers, said):
    with pytest.raises(FieldError, match=said):
        decoder_from_numbers(*numbers)
