"""Scales by name, places and what is refused."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError, HemostatWarning
from hemostat.tune.parameter import Choice, Integer, Real


@pytest.mark.parametrize(
    ("name", "low", "high", "scale"),
    [
        ("lr", 1e-3, 5e-3, "log"),
        ("train.learning_rate", 1e-3, 5e-3, "log"),
        ("encoder_lr", 1e-3, 5e-3, "log"),
        ("weight_decay", 1e-3, 5e-3, "log"),
        ("epsilon", 1e-8, 1e-6, "log"),
        ("beta2", 0.9, 0.9999, "one minus"),
        ("momentum", 0.5, 0.99, "one minus"),
        ("beta1", 0.1, 0.5, "linear"),
        ("dropout", 0.01, 0.5, "linear"),
        ("width", 1.0, 4096.0, "log"),
    ],
)
def test_scale_by_name(name, low, high, scale):
    assert Real(name, low, high).scale == scale


def test_a_linear_learning_rate_is_warned_about_and_nothing_else_is():
    with pytest.warns(HemostatWarning, match="lr is searched on a linear scale"):
        assert Real("lr", 1e-3, 1.0, log=False).scale == "linear"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Real("dropout", 0.0, 0.5, log=False)
        Real("lr", 1e-3, 1.0, log=True)


def test_a_beta_near_one_has_as_much_room_between_99_and_999_as_below():
    beta = Real("beta2", 0.9, 0.999)
    assert beta.encode(0.99) == pytest.approx(0.5)
    assert beta.decode(0.75) == pytest.approx(1 - 10**-2.5, abs=1e-6)


@given(st.floats(0, 1))
def test_places_and_values_agree(unit):
    for parameter in (Real("lr", 1e-5, 1.0), Real("beta2", 0.9, 0.9999), Real("dropout", 0.0, 0.7)):
        value = parameter.decode(unit)
        assert parameter.checked(value) == value
        assert parameter.encode(value) == pytest.approx(unit, abs=2e-3)
    for whole in (Integer("layers", 0, 7), Integer("batch", 1, 1000)):
        value = whole.decode(unit)
        assert whole.checked(value) == value
        assert whole.decode(whole.encode(value)) == value


def test_every_value_of_an_integer_is_equally_likely_on_a_linear_scale():
    layers = Integer("layers", 1, 4)
    assert [layers.decode((place + 0.5) / 8) for place in range(8)] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_the_order_of_numbers_and_what_has_none():
    decay = Choice("weight_decay", (0.0, 1e-4, 1e-2))
    assert decay.places == (0.0, 0.5, 1.0)
    assert Choice("batch", (32, 512, 64)).places == pytest.approx((0.0, 1.0, 0.25))
    assert Choice("share", (0.1, 0.2, 0.5)).places == pytest.approx((0.0, 0.25, 1.0))
    kind = Choice("kind", ("a", "b"))
    assert not kind.ordered
    assert kind.places == (0.25, 0.75)
    assert [kind.decode(unit) for unit in (0.0, 0.49, 0.51, 1.0)] == ["a", "a", "b", "b"]
    assert not Choice("on", (True, False)).ordered
    assert Choice("width", (8,)).encode(8) == 0.5


def test_lists_come_back_from_json_as_the_same_value():
    layers = Choice("layers", ((64,), (64, 64), True, 1))
    assert layers.checked([64, 64]) == (64, 64)
    assert layers.index(True) == 2
    assert layers.index(1) == 3
    assert layers.index(1.0) == 3


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Real("x", 1.0, 1.0), "low must be below high"),
        (lambda: Real("x", 2.0, 1.0), "low must be below high"),
        (lambda: Real("x", 0.0, float("inf")), "finite"),
        (lambda: Real("x", "1", 2.0), "finite"),
        (lambda: Real("lr", 0.0, 1.0), "has no 0"),
        (lambda: Integer("n", 0, 8, log=True), "has no 0"),
        (lambda: Integer("n", 0.5, 8), "whole numbers"),
        (lambda: Choice("c", ()), "no value"),
        (lambda: Choice("c", (1, 1.0)), "twice"),
        (lambda: Real("x", 0.0, 1.0).checked(2.0), "from 0 to 1"),
        (lambda: Real("x", 0.0, 1.0).checked(True), "from 0 to 1"),
        (lambda: Integer("n", 0, 8).checked(1.5), "whole number from 0 to 8"),
        (lambda: Choice("c", ("a",)).checked("b"), "must be one of"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises(FieldError, match=match):
        make()
