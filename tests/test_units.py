from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hemostat import units
from hemostat.errors import FieldError

PARSERS = [units.parse_bytes, units.parse_seconds, units.parse_usd, units.parse_count]
FORMATTERS = [
    units.format_bytes,
    units.format_seconds,
    units.format_usd,
    units.format_count,
    units.format_number,
]


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("0", 0),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1.5 MiB", 1572864),
        (" 24GiB ", 24 * 2**30),
        ("2TB", 2 * 10**12),
        ("1_000", 1000),
        (".5KiB", 512),
        ("1e3", 1000),
    ],
)
def test_sizes(text, num_bytes):
    assert units.parse_bytes(text) == num_bytes


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("3s", 3), ("1m30s", 90), ("2min", 120), ("1h 30m", 5400), ("2d", 172800), ("7", 7)],
)
def test_durations(text, seconds):
    assert units.parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "usd"), [("$1,234.50", 1234.5), (" $ 3 ", 3), ("0.31 usd", 0.31), ("$4.2e-3", 0.0042)]
)
def test_amounts(text, usd):
    assert units.parse_usd(text) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("text", "count"), [("12", 12), ("1.2T", 1.2e12), ("7B", 7e9), ("300k tokens", 300_000), ("1G", 10**9)]
)
def test_counts(text, count):
    assert units.parse_count(text) == count


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (units.parse_bytes, "80 Gib", "GiB"),
        (units.parse_bytes, "-1", "must be a number of 0 or more"),
        (units.parse_count, "-5", "must be a number of 0 or more"),
        (units.parse_count, "1.5", "is no whole number"),
        (units.parse_count, "0.3k1", "320M"),
        (units.parse_bytes, "much", "80GiB"),
        (units.parse_bytes, "", "number"),
        (units.parse_seconds, "4 hours", "4h"),
        (units.parse_seconds, "-4h", "duration"),
        (units.parse_seconds, "", "duration"),
        (units.parse_usd, "40 EUR", "$40"),
        (units.parse_usd, "$", "$40"),
        (units.parse_usd, "4,50", "$40"),
        (units.parse_count, "3 dozen", "320M"),
        (units.parse_bytes, "1e999", "number"),
        (units.parse_count, "1e999", "number"),
    ],
)
def test_a_bad_quantity_is_named_with_its_field_and_an_example(parse, text, hint):
    with pytest.raises(FieldError, match=re.escape(hint)) as caught:
        parse(text, field="budget")
    assert str(caught.value).startswith("budget=")


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text(alphabet="0123456789.eE+-_ $kKMGTiBbsmhd,tok", max_size=12))
@example("1e400")
@example("1h1e400s")
@example("$$3")
def test_any_text_is_a_finite_quantity_or_a_field_error(parse, text):
    try:
        value = parse(text)
    except FieldError:
        return
    assert math.isfinite(value)
    assert value >= 0


@given(st.integers(min_value=0, max_value=10**16))
@example(1024**2 - 1)
def test_sizes_survive_printing(num_bytes):
    back = units.parse_bytes(units.format_bytes(num_bytes))
    assert back == pytest.approx(num_bytes, rel=0.05, abs=0.5)


@given(st.floats(min_value=1e-4, max_value=1e8))
@example(0.99999)
@example(59.97)
@example(86399.7)
def test_durations_survive_printing(seconds):
    back = units.parse_seconds(units.format_seconds(seconds))
    assert back == pytest.approx(seconds, rel=0.05, abs=5e-5)


@given(st.floats(min_value=1e-6, max_value=1e9))
@example(0.0949)
@example(0.0951)
def test_amounts_survive_printing(usd):
    assert units.parse_usd(units.format_usd(usd)) == pytest.approx(usd, rel=0.06)


@given(st.integers(min_value=0, max_value=10**15))
@example(999_999)
@example(999_999_999)
def test_counts_survive_printing(count):
    assert units.parse_count(units.format_count(count)) == pytest.approx(count, rel=0.006)


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_numbers_survive_printing(value):
    assert float(units.format_number(value)) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(
    ("render", "value", "text"),
    [
        (units.format_count, 999_999, "1M"),
        (units.format_count, 999_999_999_999, "1T"),
        (units.format_bytes, 1024**2 - 1, "1.0 MiB"),
        (units.format_seconds, 0.99999, "1.0 s"),
        (units.format_seconds, 59.97, "1m00s"),
        (units.format_seconds, 3599.7, "1h00m"),
        (units.format_seconds, 86399.7, "1d00h"),
        (units.format_seconds, 5e-5, "50.0 us"),
        (units.format_usd, 0.0949, "$0.095"),
    ],
)
def test_a_value_that_rounds_up_takes_the_next_unit(render, value, text):
    assert render(value) == text


@pytest.mark.parametrize("render", FORMATTERS)
@pytest.mark.parametrize("value", [0, 1, 12345, 1e15])
def test_no_printed_quantity_is_longer_than_a_column(render, value):
    assert 0 < len(render(value)) <= 30


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.5, 0.1, "0.50 ± 0.10"),
        (-2.345678, 0.00123, "-2.3457 ± 0.0012"),
        (98765.0, 4321.0, "98765 ± 4321"),
        (0.25, 0.0, "0.25 ± 0"),
        (float("nan"), float("nan"), "nan ± nan"),
        (1e-9, 1e-15, "1e-09 ± 1e-15"),
    ],
)
def test_a_figure_shows_the_digits_that_its_error_allows(value, error, text):
    assert units.format_plus_minus(value, error) == text


@pytest.mark.parametrize(
    ("text", "usd"), [("1.5k", 1500.0), ("$2M", 2e6), ("12 USD", 12.0), ("$1,500", 1500.0)]
)
def test_large_amounts_may_be_short(text, usd):
    assert units.parse_usd(text) == pytest.approx(usd)


@pytest.mark.parametrize("text", ["0.1k", "1.1M", "6.4B", "1e3"])
def test_a_count_may_have_a_point_where_it_is_whole(text):
    assert units.parse_count(text) % 10 == 0


@pytest.mark.parametrize(
    ("value", "error", "kind", "text"),
    [
        (9_823.0, 1_178.8, "usd", "$9,800 ±1,200"),
        (98_231.0, 11_787.0, "usd", "$98k ±12k"),
        (32.31, 3.9, "usd", "$32 ±4"),
        (0.42, 0.05, "usd", "$0.42 ±0.05"),
        (0.0021, 0.0003, "s", "2.10 ms ±0.30"),
        (200_000.0, 24_000.0, "s", "2.31 d ±0.28"),
        (581_000.0, 69_720.0, "count", "580k ±70k"),
        (3.0, 0.0, "count", "3.00 ±0.00"),
    ],
)
def test_a_forecast_has_no_digit_that_its_error_leaves_open(value, error, kind, text):
    assert units.format_within(value, error, kind) == text


@pytest.mark.parametrize(
    ("low", "high", "text"), [(0.0, 12.3, "$0 to $12"), (1_999.0, 2_167_734.0, "$2,000 to $2.2M")]
)
def test_a_range_has_two_digits(low, high, text):
    assert units.format_usd_range(low, high) == text
