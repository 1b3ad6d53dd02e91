"""Epochs, samples, tokens and steps into each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hemostat.errors import FieldError
from hemostat.recipe import Base, Devices, convert, convert_length
from hemostat.recipe.length import (
    samples_from_epochs,
    samples_from_steps,
    samples_from_tokens,
    samples_per_period,
    steps_from_samples,
)


def windows(total, batch, n):
    """Count updates the slow way: a window ends at its size, at the end of an epoch, or at the end."""
    steps = done = 0
    while done < total:
        done += min(batch, n - done % n, total - done)
        steps += 1
    return steps


@given(st.integers(1, 2000), st.integers(1, 300), st.integers(1, 700))
def test_windows_never_cross_an_epoch(total, batch, n):
    assert steps_from_samples(total, batch, n) == windows(total, batch, n)


@given(st.integers(1, 10**6), st.integers(1, 2000))
def test_without_an_epoch_only_the_last_window_is_ragged(total, batch):
    steps = steps_from_samples(total, batch)
    assert (steps - 1) * batch < total <= steps * batch


def test_ragged_epochs_by_hand():
    assert steps_from_samples(2000, 128, 1000) == 16
    assert steps_from_samples(2000, 128) == 16
    assert steps_from_samples(3000, 128, 1000) == 24
    assert steps_from_samples(3000, 3000, 1000) == 3


def test_fractions_and_tokens():
    assert samples_from_epochs(0.1, 30) == 3
    assert samples_from_epochs(2.5, 1001) == 2503
    assert samples_from_tokens(1025, 512) == 3


@given(st.integers(1, 3000), st.integers(1, 300), st.one_of(st.none(), st.integers(1, 700)))
def test_steps_to_samples_and_back(steps, batch, n):
    samples = samples_from_steps(steps, batch, n)
    assert steps_from_samples(samples, batch, n) == steps
    assert steps_from_samples(samples + 1, batch, n) == steps + 1


@given(st.integers(1, 50), st.integers(1, 300), st.integers(1, 700))
def test_the_mean_period_is_that_of_a_long_run(steps, batch, n):
    many = 1000 * -(-n // batch)  # periods that end with an epoch
    assert samples_per_period(steps, batch, n) == pytest.approx(
        samples_from_steps(steps * many, batch, n) / many
    )


@given(st.integers(1, 10**6), st.integers(1, 5000), st.integers(1, 10**5), st.integers(1, 4096))
def test_every_unit_leads_back_to_the_same_length(samples, batch, n, tokens):
    sizes = {"global_batch": batch, "num_train_samples": n, "sample_tokens": tokens}
    length = convert_length(samples=samples, **sizes)
    assert convert_length(epochs=length.epochs, **sizes) == length
    assert convert_length(tokens=length.tokens, **sizes) == length
    again = convert_length(steps=length.steps, **sizes)
    assert again.steps == length.steps
    assert samples <= again.samples < samples + batch


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"^length=None: must be given once"),
        ({"epochs": 1.0, "steps": 3}, r"^length='epochs and steps': must be given once"),
        ({"epochs": 1.0}, r"^num_train_samples=None: is needed to count epochs"),
        ({"tokens": 9}, r"^sample_tokens=None: is needed to count tokens"),
        ({"steps": 0}, r"^steps=0: must be a whole number, 1 or more"),
        ({"samples": 5, "num_train_samples": 0}, r"^num_train_samples=0: "),
    ],
)
def test_a_length_that_has_no_answer(given, message):
    with pytest.raises(FieldError, match=message):
        convert_length(global_batch=8, **given)


def test_the_recipe_says_its_length_in_every_unit():
    base = Base(tuned_batch=100, epochs=2.5, num_train_samples=1000, sample_tokens=512)
    rows = {row.field: row for row in convert(base, Devices(global_batch=200)).values}
    found = {name: rows[name].value for name in ("epochs", "total_samples", "total_tokens", "total_steps")}
    assert found == {"epochs": 2.5, "total_samples": 2500, "total_tokens": 1_280_000, "total_steps": 13}
    assert rows["total_steps"].before == 25
