"""Three numbers make a decoder of that size."""

from __future__ import annotations

import pytest

from hemostat.errors import FieldError
from hemostat.plan.families import decoder_from_numbers


@pytest.mark.parametrize("num_params", [320e6, 350e6, 500e6])
def test_the_table_of_words_takes_up_what_the_blocks_leave(num_params):
    decoder = decoder_from_numbers(num_params, 24, 1024)
    assert decoder.num_params == pytest.approx(num_params, abs=1024)
    assert (decoder.num_layers, decoder.hidden, decoder.ffn, decoder.num_heads) == (24, 1024, 4096, 16)


def test_without_a_number_of_parameters_it_is_gpt2():
    assert decoder_from_numbers(None, 12, 768).num_params == 124_439_808


@pytest.mark.parametrize("num_params", [30e6, 124e6, 7e9, 70e9, 405e9])
def test_layers_and_width_follow_from_the_parameters(num_params):
    decoder = decoder_from_numbers(num_params)
    assert decoder.num_params == pytest.approx(num_params, rel=0.03) and decoder.vocab == 50257
    assert decoder.hidden % 64 == 0 and 64 <= decoder.hidden / decoder.num_layers <= 256
    assert decoder.name == f"decoder of {decoder.num_layers} x {decoder.hidden}"


@pytest.mark.parametrize("given", [{"num_layers": 32}, {"hidden": 4096}, {"hidden": 1000}])
def test_what_is_given_stays_and_the_other_follows(given):
    decoder = decoder_from_numbers(7e9, **given)
    assert decoder.num_params == pytest.approx(7e9, rel=0.03)
    assert all(getattr(decoder, name) == value for name, value in given.items())


def test_a_rounded_name_is_no_contradiction():
    """Seven billion are said of the 6.65 of 32 layers of 4096."""
    assert decoder_from_numbers(7e9, 32, 4096, vocab=50257).num_params == pytest.approx(6.65e9, rel=0.01)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"num_params": 1e6, "num_layers": 24, "hidden": 1024}, "params='1e.06': is less than the"),
        ({"num_params": 1e9, "num_layers": 0, "hidden": 1024}, "num_layers=0"),
        ({"num_params": 320e6, "num_layers": 24, "hidden": 1024, "vocab": 1_000_000}, "is not the 1,327,"),
        ({"num_params": 7e9, "num_layers": 24, "hidden": 1024}, "table of 6,5.* words, and no model has one"),
        ({"num_params": 1e3}, "params='1000': is not the"),
        ({"num_params": 0}, "params=0: must be above 0"),
        ({"num_params": 7e9, "hidden": 0}, "hidden=0: must be 1 or more"),
        ({"num_params": 7e9, "num_layers": -1}, "num_layers=-1: must be 1 or more"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(numbers, said):
    with pytest.raises(FieldError, match=said):
        decoder_from_numbers(**numbers)
