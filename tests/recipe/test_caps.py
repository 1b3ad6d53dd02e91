import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe.caps import CLOSING_S, Caps, Pace, first_save_s, read_hours, read_usd


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(4, 14400), ("4", 14400), ("0.5", 1800), ("90min", 5400), ("1h30m", 5400), ("20s", 20)],
)
def test_a_bare_number_is_hours(text, seconds):
    assert read_hours(text, "train.max_hours") == seconds


@pytest.mark.parametrize("text", ["", "soon", 0, -1, "0h", math.inf, math.nan, "4x", "1.2.3"])
def test_other_texts_are_no_hours(text):
    with pytest.raises(FieldError, match=r"train\.max_hours"):
        read_hours(text, "train.max_hours")


@pytest.mark.parametrize("value", ["free", 0, "-3", math.nan, "40 EUR"])
def test_other_texts_are_no_dollars(value):
    with pytest.raises(FieldError, match=r"train\.max_usd"):
        read_usd(value, "train.max_usd")


def test_dollars_need_a_price_and_hours_do_not():
    with pytest.raises(
        FieldError, match=r"train\.max_usd=5: needs the price of an hour.*usd_per_hour.*--max-hours"
    ):
        Caps.read(None, 5, None)
    assert Caps.read("2h", None, None).limit_s == 7200
    assert Caps.read(None, 5, 0.0).limit_s == math.inf  # nothing is ever spent there


@given(st.floats(1, 1e6), st.floats(0.01, 1e4), st.floats(0.01, 1e3))
def test_the_tighter_cap_binds(max_s, max_usd, price):
    caps = Caps(max_s=max_s, max_usd=max_usd, usd_per_hour=price)
    assert caps.limit_s <= max_s and caps.limit_s * price / 3600 <= max_usd * (1 + 1e-12)
    assert caps.limit_s == max_s or math.isclose(caps.limit_s * price / 3600, max_usd)
    assert caps.name().startswith("max_hours" if caps.limit_s == max_s else "max_usd")


@given(st.booleans(), st.booleans(), st.floats(0, 1e4), st.floats(0, 1e4), st.floats(0, 1e4))
def test_a_checkpoint_and_the_closing_always_fit(evaluates, saves, step_s, evaluation_s, checkpoint_s):
    pace = Pace(step_s=step_s, evaluation_s=evaluation_s, checkpoint_s=checkpoint_s)
    last = pace.needed_s(evaluates=evaluates, saves=saves, is_last=True)
    assert CLOSING_S + checkpoint_s <= last <= pace.needed_s(evaluates=evaluates, saves=saves)


def test_the_first_checkpoint_is_guessed_by_its_size():
    assert first_save_s(0) == 0.5 and first_save_s(2 * 10**9) == 20.5
